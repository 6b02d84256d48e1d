"""Verify tables: stored items against what is derived from them, and one store against another."""

from graphql_api.verification.findings import Damage as Damage
from graphql_api.verification.findings import Finding as Finding
from graphql_api.verification.findings import readable_item as readable_item
from graphql_api.verification.item_digests import ShardDigest as ShardDigest
from graphql_api.verification.store_comparison import SETTLE_SECONDS as SETTLE_SECONDS
from graphql_api.verification.store_comparison import ComparisonResult as ComparisonResult
from graphql_api.verification.store_comparison import ComparisonSettings as ComparisonSettings
from graphql_api.verification.store_comparison import DifferenceKind as DifferenceKind
from graphql_api.verification.store_comparison import StoreDifference as StoreDifference
from graphql_api.verification.store_comparison import compare_stores as compare_stores
from graphql_api.verification.table_verification import VerificationResult as VerificationResult
from graphql_api.verification.table_verification import VerificationSettings as VerificationSettings
from graphql_api.verification.table_verification import verify_table as verify_table
