package router

// GroupID is the random ID of the group, as the config in the store has it: what a shard.Token has as GroupID. It tells
// groups of one name in several stores apart, and a group from an earlier one in the same store. "" while nobody
// has joined yet, or while the store's group is another than the table's.
func (t *Table) GroupID() string { return t.id() }

// Changed returns a channel that closes at the first change of key's shard, or of the group's ID, that can be read after
// the call; and when the table is closed. For routers of other protocols: call it, then look at the table, then wait.
func (t *Table) Changed(key string) <-chan struct{} { return t.turns.on(t.group.Of(key)) }
