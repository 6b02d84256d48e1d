// The twin of ../sharded_page.py.
export async function readShardedPage(shards, limit, read, position) {
  const size = Math.ceil(limit / shards.length) + 2;
  const rows = new Map(shards.map((shard) => [shard, []]));
  let unread = shards;
  for (;;) {
    const answers = await Promise.all(unread.map((shard) => read(shard, rows.get(shard).at(-1), size)));
    const more = [];
    answers.forEach((answer, at) => {
      rows.get(unread[at]).push(...answer);
      if (answer.length === size) more.push(unread[at]);
    });
    const compare = (a, b) => (position(a) < position(b) ? -1 : 1);
    const merged = [...rows.values()].flat().sort(compare).slice(0, limit);
    if (merged.length < limit) unread = more;
    else unread = more.filter((shard) => position(rows.get(shard).at(-1)) < position(merged.at(-1)));
    if (unread.length === 0) return merged;
  }
}
