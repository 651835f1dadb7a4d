package cas

import "fmt"

// Txn is a conditional transaction: if every condition holds, apply every operation.
// Each list holds at most MaxOps, and no key stands twice in Then.
type Txn struct {
	If   []Cond
	Then []Op
}

// MaxOps is the most conditions, and the most operations, in one Txn: etcd's default
// limit (--max-txn-ops).
const MaxOps = 128

// Op is one change: Put, PutLeased or Delete. The zero value is invalid.
type Op struct {
	Key    string
	Value  []byte
	Lease  LeaseID // of a put; 0 detaches the key from any lease
	Delete bool
}

// Put stores value under no lease. A key that had a lease loses it.
func Put(key string, value []byte) Op { return Op{Key: key, Value: value} }

// PutLeased stores value under lease. If the lease is gone the whole transaction fails
// with ErrLeaseNotFound and nothing is applied.
func PutLeased(key string, value []byte, lease LeaseID) Op {
	return Op{Key: key, Value: value, Lease: lease}
}

// Delete removes key; one that is absent stays absent.
func Delete(key string) Op { return Op{Key: key, Delete: true} }

// Attr is what a condition compares.
type Attr uint8

// The attributes of a key, all 0 while it is absent.
const (
	Rev     Attr = iota // Entry.Rev
	Created             // Entry.Created
	Leased              // Entry.Lease
)

// Cond is a condition on a commit: one attribute of a key equals a value. Make it
// with Absent, AtRev, CreatedAt, LeasedTo or a Tenure's Guard. The zero value is invalid.
type Cond struct {
	Key  string
	Attr Attr
	Is   int64
}

// Absent holds while key does not exist.
func Absent(key string) Cond { return Cond{Key: key, Attr: Created} }

// AtRev holds while key's last change is rev; rev 0 is Absent.
func AtRev(key string, rev int64) Cond { return Cond{Key: key, Attr: Rev, Is: rev} }

// CreatedAt holds while key is the one created at rev, however often it was changed since.
func CreatedAt(key string, rev int64) Cond { return Cond{Key: key, Attr: Created, Is: rev} }

// LeasedTo holds while key is attached to lease.
func LeasedTo(key string, lease LeaseID) Cond {
	return Cond{Key: key, Attr: Leased, Is: int64(lease)}
}

// Holds reports whether c holds of e, the entry of its key.
func (c Cond) Holds(e Entry) bool {
	switch c.Attr {
	case Rev:
		return e.Rev == c.Is
	case Created:
		return e.Created == c.Is
	case Leased:
		return int64(e.Lease) == c.Is
	}
	return false
}

// Validate reports what is wrong with t whatever the store holds: too many conditions or
// operations, an empty key, a key twice in Then, a deletion that carries a value or a lease.
// The error wraps ErrInvalid. Stores call it before they send anything.
func (t Txn) Validate() error {
	if len(t.If) > MaxOps || len(t.Then) > MaxOps {
		return fmt.Errorf("%w: too many operations: %d conditions and %d changes, at most %d of each; commit in batches",
			ErrInvalid, len(t.If), len(t.Then), MaxOps)
	}
	for i, c := range t.If {
		if c.Key == "" {
			return fmt.Errorf("%w: condition %d has no key", ErrInvalid, i)
		}
		if c.Attr > Leased {
			return fmt.Errorf("%w: condition on %q compares unknown attribute %d", ErrInvalid, c.Key, c.Attr)
		}
	}
	for i, o := range t.Then {
		if o.Key == "" {
			return fmt.Errorf("%w: change %d has no key", ErrInvalid, i)
		}
		if o.Delete && (len(o.Value) > 0 || o.Lease != 0) {
			return fmt.Errorf("%w: the deletion of %q carries a value or a lease", ErrInvalid, o.Key)
		}
	}
	if key, ok := duplicate(t.Then); ok {
		return fmt.Errorf("%w: duplicate key: %q is changed twice; one transaction changes a key once", ErrInvalid, key)
	}
	return nil
}

// duplicate finds a key that stands twice in ops. Most transactions are short, and then
// comparing all pairs costs less than a map.
func duplicate(ops []Op) (string, bool) {
	if len(ops) <= 8 {
		for i := range ops {
			for j := range i {
				if ops[i].Key == ops[j].Key {
					return ops[i].Key, true
				}
			}
		}
		return "", false
	}
	seen := make(map[string]struct{}, len(ops))
	for _, o := range ops {
		if _, ok := seen[o.Key]; ok {
			return o.Key, true
		}
		seen[o.Key] = struct{}{}
	}
	return "", false
}
