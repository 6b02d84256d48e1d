"""Every error that ShardQL raises on purpose: one class per code.

`docs/reference/errors.md` lists all codes. Codes are part of the public interface: they never change.
"""

from graphql_api.errors.access_errors import Forbidden as Forbidden
from graphql_api.errors.access_errors import Unauthenticated as Unauthenticated
from graphql_api.errors.argument_errors import ConflictingArguments as ConflictingArguments
from graphql_api.errors.argument_errors import EmptyKey as EmptyKey
from graphql_api.errors.argument_errors import FilterTooLarge as FilterTooLarge
from graphql_api.errors.argument_errors import InvalidLimit as InvalidLimit
from graphql_api.errors.argument_errors import InvalidRange as InvalidRange
from graphql_api.errors.argument_errors import InvalidValue as InvalidValue
from graphql_api.errors.argument_errors import KeyTooLong as KeyTooLong
from graphql_api.errors.argument_errors import MissingArgument as MissingArgument
from graphql_api.errors.argument_errors import TooManyToSort as TooManyToSort
from graphql_api.errors.argument_errors import UnknownArgument as UnknownArgument
from graphql_api.errors.base_error import ShardQLError as ShardQLError
from graphql_api.errors.base_error import about as about
from graphql_api.errors.base_error import error_body as error_body
from graphql_api.errors.base_error import error_code as error_code
from graphql_api.errors.base_error import for_one_of_several as for_one_of_several
from graphql_api.errors.base_error import for_operations as for_operations
from graphql_api.errors.configuration_errors import InvalidCatalog as InvalidCatalog
from graphql_api.errors.configuration_errors import InvalidSettings as InvalidSettings
from graphql_api.errors.configuration_errors import UnknownEntity as UnknownEntity
from graphql_api.errors.configuration_errors import UnknownIndex as UnknownIndex
from graphql_api.errors.configuration_errors import Violation as Violation
from graphql_api.errors.document_errors import BadUserInput as BadUserInput
from graphql_api.errors.document_errors import DeadlineExceeded as DeadlineExceeded
from graphql_api.errors.document_errors import DocumentNotFound as DocumentNotFound
from graphql_api.errors.document_errors import DocumentRequired as DocumentRequired
from graphql_api.errors.document_errors import InputTooLarge as InputTooLarge
from graphql_api.errors.document_errors import LimitExceeded as LimitExceeded
from graphql_api.errors.document_errors import OperationNotFound as OperationNotFound
from graphql_api.errors.document_errors import ParseFailed as ParseFailed
from graphql_api.errors.document_errors import QueryTooCostly as QueryTooCostly
from graphql_api.errors.document_errors import QueryTooDeep as QueryTooDeep
from graphql_api.errors.document_errors import QueryTooLong as QueryTooLong
from graphql_api.errors.document_errors import TooManyAliases as TooManyAliases
from graphql_api.errors.document_errors import TooManyDirectives as TooManyDirectives
from graphql_api.errors.document_errors import TooManyRootFields as TooManyRootFields
from graphql_api.errors.document_errors import ValidationFailed as ValidationFailed
from graphql_api.errors.error_messages import PYTHON_RESOLVER as PYTHON_RESOLVER
from graphql_api.errors.error_messages import ArgumentName as ArgumentName
from graphql_api.errors.error_messages import FieldPath as FieldPath
from graphql_api.errors.error_messages import Localizable as Localizable
from graphql_api.errors.error_messages import Message as Message
from graphql_api.errors.error_messages import NameList as NameList
from graphql_api.errors.error_messages import NameResolver as NameResolver
from graphql_api.errors.error_messages import PropertyName as PropertyName
from graphql_api.errors.error_messages import SearchName as SearchName
from graphql_api.errors.error_messages import nearest as nearest
from graphql_api.errors.error_messages import suggest as suggest
from graphql_api.errors.event_errors import EventGap as EventGap
from graphql_api.errors.event_errors import InvalidEvent as InvalidEvent
from graphql_api.errors.event_errors import StreamError as StreamError
from graphql_api.errors.event_errors import StreamStopped as StreamStopped
from graphql_api.errors.http_errors import BodyTooLarge as BodyTooLarge
from graphql_api.errors.http_errors import BodyTooSlow as BodyTooSlow
from graphql_api.errors.http_errors import CrossSiteRequest as CrossSiteRequest
from graphql_api.errors.http_errors import ExpectationFailed as ExpectationFailed
from graphql_api.errors.http_errors import HostNotAllowed as HostNotAllowed
from graphql_api.errors.http_errors import InternalError as InternalError
from graphql_api.errors.http_errors import InvalidJson as InvalidJson
from graphql_api.errors.http_errors import InvalidRequest as InvalidRequest
from graphql_api.errors.http_errors import MethodNotAllowed as MethodNotAllowed
from graphql_api.errors.http_errors import NotAcceptable as NotAcceptable
from graphql_api.errors.http_errors import NotFound as NotFound
from graphql_api.errors.http_errors import Overloaded as Overloaded
from graphql_api.errors.http_errors import TooManySubscriptions as TooManySubscriptions
from graphql_api.errors.http_errors import UnsupportedMediaType as UnsupportedMediaType
from graphql_api.errors.http_errors import UrlTooLong as UrlTooLong
from graphql_api.errors.storage_errors import CatalogBehind as CatalogBehind
from graphql_api.errors.storage_errors import ConditionFailed as ConditionFailed
from graphql_api.errors.storage_errors import Conflict as Conflict
from graphql_api.errors.storage_errors import CrossStoreWrite as CrossStoreWrite
from graphql_api.errors.storage_errors import ItemTooLarge as ItemTooLarge
from graphql_api.errors.storage_errors import MissingIndex as MissingIndex
from graphql_api.errors.storage_errors import NotReady as NotReady
from graphql_api.errors.storage_errors import OutcomeUnknown as OutcomeUnknown
from graphql_api.errors.storage_errors import SchemaChanged as SchemaChanged
from graphql_api.errors.storage_errors import StoreDamaged as StoreDamaged
from graphql_api.errors.storage_errors import StoreDenied as StoreDenied
from graphql_api.errors.storage_errors import StoreError as StoreError
from graphql_api.errors.storage_errors import StoreRefused as StoreRefused
from graphql_api.errors.storage_errors import StoreUnavailable as StoreUnavailable
from graphql_api.errors.storage_errors import Throttled as Throttled
from graphql_api.errors.storage_errors import WrongTable as WrongTable
from graphql_api.errors.token_errors import ExpiredToken as ExpiredToken
from graphql_api.errors.token_errors import InvalidRecordKey as InvalidRecordKey
from graphql_api.errors.token_errors import InvalidToken as InvalidToken
from graphql_api.errors.token_errors import TokenAhead as TokenAhead
from graphql_api.errors.token_errors import TokenMismatch as TokenMismatch
from graphql_api.errors.write_errors import AlreadyExists as AlreadyExists
from graphql_api.errors.write_errors import CreationChanged as CreationChanged
from graphql_api.errors.write_errors import FieldProblem as FieldProblem
from graphql_api.errors.write_errors import FieldProblemList as FieldProblemList
from graphql_api.errors.write_errors import ForeignKeyBroken as ForeignKeyBroken
from graphql_api.errors.write_errors import IdempotencyMismatch as IdempotencyMismatch
from graphql_api.errors.write_errors import ImmutableChanged as ImmutableChanged
from graphql_api.errors.write_errors import InvalidRecord as InvalidRecord
from graphql_api.errors.write_errors import NotUnique as NotUnique
from graphql_api.errors.write_errors import RecordNotFound as RecordNotFound
from graphql_api.errors.write_errors import TransactionTooLarge as TransactionTooLarge
from graphql_api.errors.write_errors import VersionConflict as VersionConflict

# Tracebacks show the public name of a class, not the module that defines it. Docstrings are the default summaries.
for _value in [*vars().values()]:
    if isinstance(_value, type):
        _value.__module__ = __name__
        if issubclass(_value, ShardQLError) and "summary" not in vars(_value):
            _value.summary = _value.__doc__ or ShardQLError.summary
