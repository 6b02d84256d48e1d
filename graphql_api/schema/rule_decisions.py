"""What access rules decide about a principal without a record, and how errors describe them."""

from graphql_api.errors import Forbidden
from graphql_api.model import Anyone, Group, Owner, OwnerThrough, Rule, Rules, SignedIn
from graphql_api.schema.graphql_names import property_name


def decide_without_record(rules: Rules | None, subject: str | None, groups: frozenset[str]) -> bool | None:
    """Return whether the rules allow a principal; None if that depends on the record."""
    if rules is None or Anyone() in rules or (subject and SignedIn() in rules):
        return True
    if any(isinstance(rule, Group) and not groups.isdisjoint(rule.names) for rule in rules):
        return True
    return None if subject and ownership_properties(rules) else False


def check_caller(what: str, rules: Rules, subject: str | None, groups: frozenset[str]) -> None:
    """Raise `Forbidden` unless the rules, which depend on no record, allow a caller."""
    if not decide_without_record(rules, subject, groups):
        allowed = " or ".join(map(describe_rule, rules)) or "no caller"
        raise Forbidden(f"{what} is allowed only for {allowed}. {'Request membership' if subject else 'Sign in'}.")


def ownership_properties(rules: Rules | None) -> frozenset[str]:
    """Return the properties of a record that determine its owner."""
    owners = {rule.property for rule in rules or () if isinstance(rule, Owner)}
    return frozenset(owners | {rule.of for rule in rules or () if isinstance(rule, OwnerThrough)})


def describe_rule(rule: Rule) -> str:
    """Return the principals that a rule allows, as part of a sentence."""
    match rule:
        case Anyone():
            return "everyone"
        case SignedIn():
            return "authenticated callers"
        case Group(names):
            return f"members of {' or '.join(names)}"
        case Owner(name):
            return f"the owner ({property_name(name)})"
        case OwnerThrough(entity=entity, of=of):
            return f"the owner of {property_name(of)} through {entity}"
