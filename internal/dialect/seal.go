package dialect

// Step is a statement and its parameters.
type Step struct {
	Stmt string
	Args []any
}

// sealing is the statements of a seal.
type sealing struct {
	addFence, addWanted, raiseWanted, raiseEpoch, allWanted, allEpochs string
}

// floorShard stands in the wanted table for a whole group: no shard of it may be sealed below that.
const floorShard = -1

// AddRows makes the rows of a shard that has none. Each step may be a transaction of its own.
func (f *Fence) AddRows(group string, shard int, groupID string) []Step {
	return []Step{
		{f.seal.addWanted, []any{group, shard}},
		{f.seal.addFence, []any{group, shard, groupID}},
	}
}

// Raise is the two steps of a seal. They are two transactions, so that guards turn away while the second waits for those that
// have passed. The second changes one row, or none if what is there refuses the epoch: it looks for a newer seal
// and for the group's floor in a snapshot from after the first was visible to everybody, and whoever raises either later
// than that will find this row and raise it too.
func (f *Fence) Raise(group string, shard int, groupID string, epoch int64) (wanted, sealed Step) {
	return Step{f.seal.raiseWanted, []any{epoch, group, shard, epoch}},
		Step{f.seal.raiseEpoch, []any{epoch, group, shard, groupID, epoch, group, shard, epoch}}
}

// RaiseAll raises all shards of group to least, those without a row by a floor. Each step is a transaction.
func (f *Fence) RaiseAll(group string, least int64) []Step {
	return []Step{
		{f.seal.addWanted, []any{group, floorShard}},
		{f.seal.allWanted, []any{least, group, least}},
		{f.seal.allEpochs, []any{least, group, least}},
	}
}
