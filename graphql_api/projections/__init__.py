"""Projections: functions from events to operations, and what applies events exactly once, in order, to read models."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.projections.dead_letters import DeadLetters as DeadLetters
    from graphql_api.projections.dead_letters import LetterOutcome as LetterOutcome
    from graphql_api.projections.dead_letters import LetterResult as LetterResult
    from graphql_api.projections.dead_letters import in_order as in_order
    from graphql_api.projections.event_envelopes import Envelope as Envelope
    from graphql_api.projections.event_envelopes import Event as Event
    from graphql_api.projections.event_envelopes import parse_envelope as parse_envelope
    from graphql_api.projections.event_envelopes import read_envelope as read_envelope
    from graphql_api.projections.event_files import EventFile as EventFile
    from graphql_api.projections.event_sources import EventSource as EventSource
    from graphql_api.projections.event_sources import build_sources as build_sources
    from graphql_api.projections.event_sources import find_source as find_source
    from graphql_api.projections.posted_events import MAX_POSTED_EVENTS as MAX_POSTED_EVENTS
    from graphql_api.projections.posted_events import PostedEvents as PostedEvents
    from graphql_api.projections.posted_events import apply_posted as apply_posted
    from graphql_api.projections.projection_functions import Projection as Projection
    from graphql_api.projections.projection_functions import projection as projection
    from graphql_api.projections.projection_run import ProjectionRun as ProjectionRun
    from graphql_api.projections.projection_run import RunProgress as RunProgress
    from graphql_api.projections.projection_testing import ProjectedEvents as ProjectedEvents
    from graphql_api.projections.projection_testing import project_events as project_events
    from graphql_api.projections.replays import ReplayResult as ReplayResult
    from graphql_api.projections.replays import replay as replay
    from graphql_api.projections.stream_items import LETTER_KIND as LETTER_KIND
    from graphql_api.projections.stream_items import STREAM_KIND as STREAM_KIND
    from graphql_api.projections.stream_items import DeadLetter as DeadLetter
    from graphql_api.projections.stream_items import unreadable_part as unreadable_part
    from graphql_api.projections.stream_projector import StreamLocks as StreamLocks
    from graphql_api.projections.stream_projector import StreamProjector as StreamProjector
    from graphql_api.projections.stream_projector import StreamResult as StreamResult
else:
    __getattr__ = lazy_exports(__name__, __file__)
