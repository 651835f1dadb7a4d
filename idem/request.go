package idem

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"time"
	"unicode/utf8"

	"github.com/tenure-go/tenure/shard"
)

// Request identifies an operation and says how to run it. Scope and Key are required.
type Request struct {
	// Scope is whose key it is: a tenant, an authenticated caller, a queue. Keys of different scopes
	// never meet, so nobody gets another's result by guessing a key. 1 to 1024 bytes of UTF-8.
	Scope string

	// Key is the operation's name within Scope, the same on each try: 1 to 1024 bytes of UTF-8.
	Key string

	// Fingerprint is a digest of what is asked for; see Fingerprint. A later try with another one is a
	// *MismatchError, whatever became of the first; with none as well, if the first had one. At most
	// 128 bytes. Defaults to none.
	Fingerprint []byte

	// Token is that of the shard's owner which runs the operation (owner.TokenFrom). A later owner
	// takes over at once, and an earlier one can neither finish nor record a step. Defaults to none:
	// a try that has crashed is taken over once its attempt has ended.
	Token shard.Token

	// Interrupted is what to do if an earlier try has ended without saying how. Defaults to Retry.
	Interrupted Policy

	// Wait is how long to wait for a try that is in progress elsewhere, before *InProgressError.
	// Defaults to 0: not at all.
	Wait time.Duration
}

const (
	maxName        = 1024 // bytes of a scope or a key
	maxFingerprint = 128
)

func (q Request) check() error {
	var errs []error
	for _, name := range []struct{ what, s string }{{"Scope", q.Scope}, {"Key", q.Key}} {
		switch {
		case name.s == "":
			errs = append(errs, refused("idem: Request.%s is empty: it is required", name.what))
		case len(name.s) > maxName:
			errs = append(errs, refused("idem: Request.%s has %d bytes: want at most %d", name.what, len(name.s), maxName))
		case !utf8.ValidString(name.s):
			errs = append(errs, refused("idem: Request.%s is not UTF-8", name.what))
		}
	}
	if len(q.Fingerprint) > maxFingerprint {
		errs = append(errs, refused("idem: Request.Fingerprint has %d bytes: want a digest of at most %d; see Fingerprint",
			len(q.Fingerprint), maxFingerprint))
	}
	if q.Wait < 0 {
		errs = append(errs, refused("idem: Request.Wait: %s: want 0 or more", q.Wait))
	}
	return errors.Join(errs...)
}

var lower32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// id is the record's name in the store: 52 letters and digits, whatever scope and key are. It is a hash
// over the lengths too, so ("a", "b/c") and ("a/b", "c") are two operations.
func (q Request) id() string {
	sum := digest("record", q.Scope, q.Key)
	var b [52]byte
	lower32.Encode(b[:], sum[:])
	return string(b[:])
}

// stepKey is what a third party gets as its idempotency key. It is derived, and not drawn at random
// and stored, so that it is the same even if the record was lost in between.
func (q Request) stepKey(name string) string {
	sum := digest("step", q.Scope, q.Key, name)
	return "idem_" + lower32.EncodeToString(sum[:25])
}

func digest(parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256)
	b = append(b, "tenure/idem/1"...)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

// printVersion is how fingerprints are stored. A record with another one was written by a program
// that reckons otherwise, and can't be compared.
const printVersion = "1:"

func (q Request) print() string {
	var b [len(printVersion) + 2*maxFingerprint]byte
	return string(hex.AppendEncode(append(b[:0], printVersion...), q.Fingerprint))
}

// Fingerprint is a digest of parts, for Request.Fingerprint. Where one part ends and the next begins
// counts too. Leave out what differs between tries of one operation, such as the time or a trace id.
// The digest will not change in later versions.
func Fingerprint(parts ...[]byte) []byte {
	h := newFingerprint()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		_, _ = h.Write(n[:])
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

func newFingerprint() hash.Hash { return sha512.New512_256() }
