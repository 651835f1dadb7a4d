package dialect

// Step is a statement and its parameters.
type Step struct {
	Stmt string
	Args []any
}

// sealing is the statements of a seal.
type sealing struct {
	addFence    string
	addWanted   string // "" where wanted is a column of the fence's table
	addFloor    string
	raiseWanted string
	hold        string // before raiseEpoch, in its transaction, or ""
	raiseEpoch  string
	allWanted   string
	holdAll     string // before allEpochs, in its transaction, or ""
	allEpochs   string
}

// floorShard stands among the rows of wanted for a whole group: no shard of it may be sealed below that.
const floorShard = -1

// AddRow makes the rows of a shard that has none. Each step is a transaction of its own.
func (f *Fence) AddRow(group string, shard int, groupID string) []Step {
	row := Step{f.seal.addFence, []any{group, shard, groupID}}
	if f.seal.addWanted == "" {
		return []Step{row}
	}
	return []Step{{f.seal.addWanted, []any{group, shard}}, row}
}

// HasRow reports whether a shard's rows are there, going by what State says.
func (f *Fence) HasRow(groupID string, wanted int64) bool {
	return groupID != "" && (wanted > 0 || f.seal.addWanted == "")
}

// Raise seals: first wanted, so that guards turn away, and in another transaction the epoch, for which it waits
// for the guards that have passed. The last step changes one row, or none if what is there refuses the epoch: it looks
// for a newer seal, and on MySQL and SQLite for the group's floor, in a snapshot from after wanted was visible to
// everybody, and whoever raises either later will find this row and raise it too.
func (f *Fence) Raise(group string, shard int, groupID string, epoch int64) (wanted, sealed []Step) {
	wanted = []Step{{f.seal.raiseWanted, []any{epoch, group, shard, epoch}}}
	if f.dialect == Postgres {
		return wanted, []Step{
			{f.seal.hold, []any{group, shard}},
			{f.seal.raiseEpoch, []any{epoch, group, shard, groupID, PermitOf(group, shard, groupID, epoch).String()}},
		}
	}
	return wanted, []Step{{f.seal.raiseEpoch, []any{epoch, group, shard, groupID, epoch, group, shard, epoch}}}
}

// RaiseAll raises all shards of group to least, those without a row by a floor. Each element is a transaction.
func (f *Fence) RaiseAll(group string, least int64) [][]Step {
	epochs := []Step{{f.seal.allEpochs, []any{least, group, least}}}
	if f.seal.holdAll != "" {
		epochs = append([]Step{{f.seal.holdAll, []any{group, least}}}, epochs...)
	}
	return [][]Step{
		{{f.seal.addFloor, []any{group, floorShard}}},
		{{f.seal.allWanted, []any{least, group, least}}},
		epochs,
	}
}
