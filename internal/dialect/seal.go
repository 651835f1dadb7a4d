package dialect

// Step is a statement and its parameters.
type Step struct {
	Stmt string
	Args []any
}

// sealing is the statements of a seal.
type sealing struct {
	addFence, addWanted, raiseWanted, raiseEpoch, allWanted, allEpochs string

	lockAlone, renew, drain string // Postgres
}

const raiseStatement = `UPDATE {fence} SET epoch = ? WHERE group_name = ? AND shard = ? AND group_id = ? AND epoch < ? ` +
	`AND NOT EXISTS (SELECT 1 FROM {wanted} WHERE group_name = ? AND shard IN (?, -1) AND epoch > ?)`

// floorShard stands in the wanted table for a whole group: no shard of it may be sealed below that.
const floorShard = -1

// AddRows makes the rows of a shard that has none. Each step may be a transaction of its own.
func (f *Fence) AddRows(group string, shard int, groupID string) []Step {
	return []Step{
		{f.seal.addWanted, []any{group, shard}},
		{f.seal.addFence, []any{group, shard, groupID}},
	}
}

// Raise is the two transactions of a seal. They are two so that guards turn away while the second waits for those that
// have passed. The last step of the second changes one row, or none if what is there refuses the epoch: it looks for a newer seal
// and for the group's floor in a snapshot from after the first was visible to everybody, and whoever raises either later
// than that will find this row and raise it too. After each transaction comes Renew; also when the row is found raised.
func (f *Fence) Raise(group string, shard int, groupID string, epoch int64) (wanted Step, sealed []Step) {
	wanted = Step{f.seal.raiseWanted, []any{epoch, group, shard, epoch}}
	raise := Step{f.seal.raiseEpoch, []any{epoch, group, shard, groupID, epoch, group, shard, epoch}}
	if f.seal.lockAlone == "" {
		return wanted, []Step{raise}
	}
	return wanted, []Step{{f.seal.lockAlone, []any{lockKey(group, shard)}}, raise}
}

// Renew sets the generation: no guard passes the short way until it has passed the long one. Postgres.
func (f *Fence) Renew() Step { return Step{f.seal.renew, []any{newGeneration()}} }

// RaiseAll raises all shards of group to least, those without a row by a floor. Each is a transaction. Behind them comes Drain.
func (f *Fence) RaiseAll(group string, least int64) [][]Step {
	epochs := []Step{{f.seal.allEpochs, []any{least, group, least}}}
	if f.seal.renew != "" {
		epochs = append(epochs, f.Renew()) // when all rows are locked
	}
	return [][]Step{
		{{f.seal.addWanted, []any{group, floorShard}}},
		{{f.seal.allWanted, []any{least, group, least}}},
		epochs,
	}
}

// Drain is a query that waits for the guards of group's next shards that have passed the short way, above the shard after, and returns how many
// shards those are and the last of them. Begin with -1, and go on until it is none. Postgres.
func (f *Fence) Drain(group string, after int) Step {
	return Step{f.seal.drain, []any{lockBase(group), group, after}}
}
