"""The kinds of damage that tests plant, by name. Each plants what another program, or an earlier defect, leaves."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal

from graphql_api.storage import Key
from graphql_api.verification import Damage
from graphql_api.writes import item_key
from tests.verification.damaged_tables import NOW, WEEK, Tenant

Plant = Callable[[Tenant], Awaitable[Key]]
"""plants damage, and returns the item that the finding names"""

SEP = "\x01|"


@dataclass(frozen=True)
class Kind:
    """A kind of damage to plant."""

    plant: Plant
    damage: Damage
    is_derivable: bool
    also: frozenset[Damage]
    """what follows from it, and is found too"""


KINDS: dict[str, Kind] = {}


def kind(damage: Damage, *also: Damage, derivable: bool = True) -> Callable[[Plant], Plant]:
    """Registers a kind of damage under the name of its function."""

    def register(plant: Plant) -> Plant:
        KINDS[plant.__name__.strip("_")] = Kind(plant, damage, derivable, frozenset(also))
        return plant

    return register


# --- index keys and derived properties -------------------------------------------------------------------------


@kind(Damage.INDEX_KEY)
async def _index_hash_key_removed(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#ann"), personTownCanonicalHashKey=None)


@kind(Damage.INDEX_KEY)
async def _index_range_key_removed(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#ann"), townRangeKey=None)


@kind(Damage.INDEX_KEY)
async def _both_index_keys_removed(tenant: Tenant) -> Key:
    email = tenant.find("email", "email#e1@x")
    return await tenant.change(email, emailPersonHashKey=None, personRangeKey=None)


@kind(Damage.INDEX_KEY)
async def _index_key_of_another_shard(tenant: Tenant) -> Key:
    wrong = tenant.key("email!01|personId#ann", "").hash
    return await tenant.change(tenant.find("email", "email#e1@x"), emailPersonHashKey=wrong)


@kind(Damage.INDEX_KEY)
async def _index_key_of_another_value(tenant: Tenant) -> Key:
    wrong = f"label#zz{SEP}email#e1@x"
    return await tenant.change(tenant.find("email", "email#e1@x"), personRangeKey=wrong)


@kind(Damage.INDEX_KEY)
async def _index_key_without_tenant(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("email", "email#e1@x"), emailPersonHashKey="email!00|personId#ann")


@kind(Damage.INDEX_KEY)
async def _index_key_of_a_missing_value(tenant: Tenant) -> Key:
    dan = tenant.find("person", "personId#dan")
    keys = {"personTownCanonicalHashKey": dan["hashKey"] + "|townCanonical#rome", "townRangeKey": "nameCanonical#dan"}
    return await tenant.change(dan, **keys)


@kind(Damage.INDEX_KEY)
async def _index_key_of_another_entity(tenant: Tenant) -> Key:
    ann, email = tenant.find("person", "personId#ann"), tenant.find("email", "email#e1@x")
    return await tenant.change(ann, emailPersonHashKey=email["emailPersonHashKey"], personRangeKey="label#l1")


@kind(Damage.INDEX_KEY)
async def _index_key_of_an_entry(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("order", f"orderId#o1{SEP}at#v0"), noteRangeKey=None)


@kind(Damage.INDEX_KEY)
async def _index_key_of_a_current_record(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("order", f"orderId#o1{SEP}at#~current"), noteRangeKey=None)


@kind(Damage.DERIVED_PROPERTY)
async def _derived_property_removed(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), townCanonical=None)


@kind(Damage.DERIVED_PROPERTY, Damage.UNIQUE_ITEM)
async def _derived_property_changed(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), nameCanonical="robert")


@kind(Damage.DERIVED_PROPERTY)
async def _derived_property_without_source(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#dan"), townCanonical="rome")


# --- records ---------------------------------------------------------------------------------------------------


@kind(Damage.INVALID_RECORD, derivable=False)
async def _required_property_missing(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), name=None)


@kind(Damage.INVALID_RECORD, derivable=False)
async def _property_of_another_type(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), row="first")


@kind(Damage.INVALID_RECORD, derivable=False)
async def _unknown_enum_member(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), state="lost")


@kind(Damage.PROPERTY_FORM)
async def _time_in_another_zone(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), born="2001-01-01T02:00:00+02:00")


@kind(Damage.RECORD_KEY, Damage.VOID_ITEM, derivable=False)
async def _key_of_another_id(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("ticket", "ticketId#t0"), ticketId="t9")


@kind(Damage.SHARD, Damage.VOID_ITEM)
async def _shard_of_no_generation(tenant: Tenant) -> Key:
    return await tenant.move(tenant.find("email", "email#e1@x"), "email!01")


@kind(Damage.SHARD, derivable=False)
async def _shard_of_another_generation(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#dan"), created=5)


@kind(Damage.SHARD, Damage.VOID_ITEM)
async def _entry_in_a_shard_of_no_generation(tenant: Tenant) -> Key:
    return await tenant.move(tenant.find("order", f"orderId#o1{SEP}at#v0"), "order!02")


@kind(Damage.DOUBLED)
async def _copy_in_another_shard(tenant: Tenant) -> Key:
    return await tenant.put({**tenant.find("email", "email#e1@x"), "hashKey": tenant.key("email!01", "").hash})


@kind(Damage.DOUBLED, Damage.INDEX_KEY, derivable=False)
async def _other_record_of_the_id_in_another_shard(tenant: Tenant) -> Key:
    other = tenant.key("email!01", "email#e1@x")
    await tenant.put({**tenant.find("email", "email#e1@x"), "hashKey": other.hash, "label": "other", "personId": "zed"})
    return item_key(tenant.find("email", "email#e1@x"))


@kind(Damage.DOUBLED, Damage.UNIQUE_ITEM, derivable=False)
async def _id_in_two_generations(tenant: Tenant) -> Key:
    cleo = tenant.find("person", "personId#cleo")
    first = tenant.generation_key("person", "cleo", 0)
    attributes = {"hashKey": first, "created": 5, "name": "Other", "nameCanonical": "other", "row": None, "seat": None}
    attributes |= {"town": None, "townCanonical": None, "personTownCanonicalHashKey": None, "townRangeKey": None}
    await tenant.change(cleo, **attributes)
    return Key(min(first, cleo["hashKey"]), cleo["rangeKey"])


@kind(Damage.DOUBLED, derivable=False)
async def _history_in_two_generations(tenant: Tenant) -> Key:
    entry = tenant.find("diary", f"diaryId#late{SEP}at#09223372036854775808")
    first = tenant.generation_key("diary", "late", 0)
    other = {"hashKey": first, "created": 5, "at": 7, "rangeKey": f"diaryId#late{SEP}at#09223372036854775815"}
    await tenant.change(entry, mood=None, **other)
    return Key(min(first, entry["hashKey"]), f"diaryId#late{SEP}")


@kind(Damage.WRITE_ID)
async def _write_id_removed(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), _w=None)


@kind(Damage.DELETE_INTENT)
async def _delete_intent_left(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), _closing=int((NOW - 3_600) * 1_000))


@kind(Damage.CURRENT_RECORD)
async def _entry_marked_as_copy(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person", "personId#bob"), _of="v1")


@kind(Damage.UNKNOWN_ENTITY, derivable=False)
async def _record_of_an_unknown_entity(tenant: Tenant) -> Key:
    key = tenant.key("planet!00", "planetId#mars")
    return await tenant.put({"hashKey": key.hash, "rangeKey": key.range, "planetId": "mars", "_w": "x" * 16})


@kind(Damage.UNKNOWN_ENTITY, derivable=False)
async def _hash_key_of_another_program(tenant: Tenant) -> Key:
    return await tenant.put({"hashKey": f"{tenant.name}|USER#1", "rangeKey": "PROFILE"})


@kind(Damage.EXPIRED)
async def _expired_long_ago(tenant: Tenant) -> Key:
    old = int(NOW) - 2 * WEEK
    key = tenant.key("pass!", "cardId#old")
    tenant.removed.add(key)
    return await tenant.put({"hashKey": key.hash, "rangeKey": key.range, "cardId": "old", "code": "c", "until": old})


# --- constraint items ------------------------------------------------------------------------------------------


@kind(Damage.UNIQUE_ITEM)
async def _unique_item_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("person~unique", "nameCanonical", "ann"))


@kind(Damage.UNIQUE_ITEM)
async def _unique_item_of_several_properties_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("person~unique", "uniqueSeat", "75810"))


@kind(Damage.UNIQUE_ITEM)
async def _unique_item_of_another_record(tenant: Tenant) -> Key:
    item, bob = tenant.find("person~unique", "nameCanonical", "ann"), tenant.find("person", "personId#bob")
    return await tenant.change(item, _owner=[*item_key(bob)])


@kind(Damage.UNIQUE_ITEM)
async def _unique_item_of_no_record(tenant: Tenant) -> Key:
    item = tenant.find("person~unique", "nameCanonical", "ann")
    return await tenant.change(item, _owner=[tenant.key("person!01", "").hash, "personId#none"])


@kind(Damage.UNIQUE_ITEM)
async def _unique_item_without_owner(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person~unique", "nameCanonical", "ann"), _owner=None)


@kind(Damage.UNIQUE_ITEM)
async def _unique_item_of_an_entry(tenant: Tenant) -> Key:
    item = tenant.find("order~unique", "card", "o1-2")
    return await tenant.change(item, _owner=[item["_owner"][0], f"orderId#o1{SEP}at#v2"])


@kind(Damage.UNIQUE_ITEM)
async def _unique_item_with_another_expiry(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("pass~unique", "code", "c1"), _until=int(NOW) + 5, until=int(NOW) + 5)


@kind(Damage.VOID_ITEM)
async def _unique_item_of_a_deleted_record(tenant: Tenant) -> Key:
    item = tenant.find("person~unique", "nameCanonical", "ann")
    void = {**item, "hashKey": item["hashKey"].replace("#ann", "#gone")}
    key = await tenant.put({**void, "_owner": [tenant.key("person!01", "").hash, "personId#gone"]})
    tenant.removed.add(key)
    return key


@kind(Damage.VOID_ITEM)
async def _unique_item_of_an_earlier_value(tenant: Tenant) -> Key:
    item = tenant.find("person~unique", "nameCanonical", "ann")
    key = await tenant.put({**item, "hashKey": item["hashKey"].replace("#ann", "#anna")})
    tenant.removed.add(key)
    return key


@kind(Damage.DUPLICATE_VALUE, derivable=False)
async def _unique_value_of_two_records(tenant: Tenant) -> Key:
    await tenant.delete(tenant.find("pass~unique", "code", "c2"))
    return await tenant.change(tenant.find("pass", "cardId#p2"), code="c1")


@kind(Damage.REFERENCE_ITEM)
async def _reference_item_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("person~refs", f"email.ofPerson{SEP}email#e1@x"))


@kind(Damage.REFERENCE_ITEM)
async def _reference_item_of_a_history_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("person~refs", f"order.ofPerson{SEP}orderId#o1{SEP}at#~current"))


@kind(Damage.REFERENCE_ITEM)
async def _reference_item_of_another_record(tenant: Tenant) -> Key:
    item = tenant.find("person~refs", f"email.ofPerson{SEP}email#e1@x")
    return await tenant.change(item, _owner=[tenant.key("email!02", "").hash, "email#e0@x"])


@kind(Damage.VOID_ITEM)
async def _reference_item_of_an_earlier_value(tenant: Tenant) -> Key:
    item = tenant.find("person~refs", f"email.ofPerson{SEP}email#e1@x")
    key = await tenant.put({**item, "hashKey": item["hashKey"].replace("#ann", "#bob")})
    tenant.removed.add(key)
    return key


@kind(Damage.REFERENCE_ITEM)
async def _reference_item_to_itself(tenant: Tenant) -> Key:
    item = tenant.find("person~refs", f"person.ofMentor{SEP}personId#bob")
    dan = tenant.find("person", "personId#dan")
    changed = {"hashKey": item["hashKey"].replace("#ann", "#dan"), "rangeKey": f"person.ofMentor{SEP}personId#dan"}
    key = await tenant.change(item, **changed, _owner=[*item_key(dan)])
    tenant.removed.add(key)
    return key


@kind(Damage.MISSING_PARENT, derivable=False)
async def _referenced_record_missing(tenant: Tenant) -> Key:
    item = tenant.find("person~refs", f"email.ofPerson{SEP}email#e1@x")
    email = tenant.find("email", "email#e1@x")
    await tenant.delete(item)
    await tenant.put({**item, "hashKey": item["hashKey"].replace("#ann", "#zed")})
    keys = {"personId": "zed", "emailPersonHashKey": email["emailPersonHashKey"].replace("#ann", "#zed")}
    return await tenant.change(email, **keys)


@kind(Damage.UNKNOWN_ITEM, derivable=False)
async def _item_of_an_unknown_constraint(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("person~unique", "nameCanonical", "ann"), rangeKey="nickname")


# --- mapping items ---------------------------------------------------------------------------------------------


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("email~lookup.label", "email#e1@x"))


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_of_a_derived_property_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("person~lookup.home", "personId#bob"))


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_of_an_entry_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("order~lookup.holder", f"orderId#o1{SEP}at#v0"))


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_of_a_current_record_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("order~lookup.holder", f"orderId#o1{SEP}at#~current"))


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_of_another_shard(tenant: Tenant) -> Key:
    item = tenant.find("email~lookup.label", "email#e1@x")
    return await tenant.change(item, _owner=[tenant.key("email!01", "").hash, "email#e1@x"])


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_of_another_record(tenant: Tenant) -> Key:
    item = tenant.find("email~lookup.label", "email#e1@x")
    return await tenant.change(item, _owner=[item["_owner"][0], "email#e0@x"])


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_without_owner(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("email~lookup.label", "email#e1@x"), _owner=None)


@kind(Damage.MAPPING_ITEM)
async def _mapping_item_with_another_expiry(tenant: Tenant) -> Key:
    item = tenant.find("pass~lookup.passHolder", "cardId#p1")
    return await tenant.change(item, _until=int(NOW) + 5, until=int(NOW) + 5)


@kind(Damage.VOID_ITEM)
async def _mapping_item_of_a_deleted_record(tenant: Tenant) -> Key:
    item = tenant.find("email~lookup.label", "email#e1@x")
    key = await tenant.put({**item, "rangeKey": "email#gone", "_owner": [item["_owner"][0], "email#gone"]})
    tenant.removed.add(key)
    return key


@kind(Damage.VOID_ITEM)
async def _mapping_item_of_an_earlier_value(tenant: Tenant) -> Key:
    item = tenant.find("email~lookup.label", "email#e1@x")
    key = await tenant.put({**item, "hashKey": f"{item['hashKey']}0"})
    tenant.removed.add(key)
    return key


@kind(Damage.UNKNOWN_ITEM, derivable=False)
async def _mapping_item_of_an_unknown_lookup(tenant: Tenant) -> Key:
    item = tenant.find("email~lookup.label", "email#e1@x")
    return await tenant.put({**item, "hashKey": item["hashKey"].replace("lookup.label", "lookup.color")})


# --- histories -------------------------------------------------------------------------------------------------


@kind(Damage.CURRENT_RECORD)
async def _current_record_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("visit", f"visitId#early{SEP}at#~current"))


@kind(Damage.CURRENT_RECORD)
async def _current_record_with_another_value(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("visit", f"visitId#early{SEP}at#~current"), note="stale")


@kind(Damage.CURRENT_RECORD)
async def _current_record_of_an_earlier_entry(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("visit", f"visitId#early{SEP}at#~current"), note="0", _of="v0")


@kind(Damage.CURRENT_RECORD)
async def _current_record_without_its_entry(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("visit", f"visitId#early{SEP}at#~current"), _of=None)


@kind(Damage.CURRENT_RECORD)
async def _current_record_in_two_shards(tenant: Tenant) -> Key:
    item = tenant.find("visit", f"visitId#late{SEP}at#~current")
    await tenant.put({**item, "hashKey": tenant.generation_key("visit", "late", 0)})
    return item_key(item)


@kind(Damage.CURRENT_RECORD, Damage.UNIQUE_ITEM, Damage.REFERENCE_ITEM, Damage.VOID_ITEM)
async def _current_record_and_its_items_missing(tenant: Tenant) -> Key:
    await tenant.delete(tenant.find("order~unique", "card", "o1-2"))
    await tenant.delete(tenant.find("person~refs", f"order.ofPerson{SEP}orderId#o1{SEP}at#~current"))
    return await tenant.delete(tenant.find("order", f"orderId#o1{SEP}at#~current"))


@kind(Damage.MISSING_ENTRY, derivable=False)
async def _last_entry_missing(tenant: Tenant) -> Key:
    await tenant.delete(tenant.find("visit", f"visitId#early{SEP}at#v1"))
    return item_key(tenant.find("visit", f"visitId#early{SEP}at#~current"))


@kind(Damage.MISSING_ENTRY, derivable=False)
async def _all_entries_missing(tenant: Tenant) -> Key:
    for version in range(2):
        await tenant.delete(tenant.find("visit", f"visitId#early{SEP}at#v{version}"))
    return item_key(tenant.find("visit", f"visitId#early{SEP}at#~current"))


# --- counters and stored responses -----------------------------------------------------------------------------


@kind(Damage.COUNTER)
async def _counter_too_low(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("ticket~counter", "counter#num", "desk#a"), _last=1)


@kind(Damage.COUNTER)
async def _counter_missing(tenant: Tenant) -> Key:
    return await tenant.delete(tenant.find("ticket~counter", "counter#num", "desk#a"))


@kind(Damage.COUNTER, derivable=False)
async def _counter_unreadable(tenant: Tenant) -> Key:
    return await tenant.change(tenant.find("ticket~counter", "counter#num", "desk#a"), _last="three")


@kind(Damage.EXPIRED)
async def _stored_response_expired_long_ago(tenant: Tenant) -> Key:
    (item,) = tenant.all("shardql~once")
    old = Decimal(int(NOW) - 2 * WEEK)
    key = await tenant.change(item, rangeKey=f"request#{0:064}", _until=old, until=old)
    tenant.removed.add(key)
    return key


@kind(Damage.STORED_RESPONSE, derivable=False)
async def _stored_response_without_expiry(tenant: Tenant) -> Key:
    (item,) = tenant.all("shardql~once")
    return await tenant.change(item, _until=None)


@kind(Damage.STREAM_POSITION, derivable=False)
async def _stream_position_without_number(tenant: Tenant) -> Key:
    (item,) = tenant.all("shardql~stream")
    return await tenant.change(item, _seq=None)


@kind(Damage.STREAM_POSITION, derivable=False)
async def _stream_position_under_another_range_key(tenant: Tenant) -> Key:
    (item,) = tenant.all("shardql~stream")
    key = await tenant.change(item, rangeKey="river#1")
    tenant.removed.add(key)
    return key


@kind(Damage.DEAD_LETTER, derivable=False)
async def _dead_letter_without_event(tenant: Tenant) -> Key:
    (item,) = tenant.all("shardql~dead")
    return await tenant.change(item, _event=None)
