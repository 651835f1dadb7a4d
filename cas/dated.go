package cas

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Dated makes a receipt's id of name and the time at which the operation began, to the second, so
// that the receipt says its age and Sweep can forget it. Make the id once, where the operation
// begins, and keep it with the operation: a retry that takes a fresh time is another operation, and
// is applied a second time.
//
//	id := cas.Dated(payment.Created, payment.ID)
//
// The date is that of the caller's clock, and need not be exact: a clock that is slow by more than
// the age at which receipts are swept gets ErrReceiptExpired, never a second application. What
// name must be like, Update says.
func Dated(began time.Time, name string) string {
	return datedMark + began.UTC().Format(stampLayout) + "-" + name
}

// ErrReceiptExpired: the operation began so long ago that Sweep may have forgotten its receipt.
// The call has applied nothing, and none with this receipt ever will. Whether an earlier one
// did can no longer be told from here, which is why the outcome is Uncertain: doing the same under
// a new receipt may do it twice.
var ErrReceiptExpired error = &outcomeError{"cas: receipt expired", Uncertain}

const (
	datedMark   = "@"
	datedPrefix = ReceiptPrefix + datedMark
	stampLayout = "20060102T150405Z"
	firstYear   = 2000 // where a synctest bubble begins

	// horizonKey holds the date before which receipts may be gone. No receipt's key is like it: theirs
	// have a "/" after the prefix.
	horizonKey = ReceiptPrefix + "horizon"
	// sweptKey holds the date before which they are gone, to begin the next sweep at.
	sweptKey = ReceiptPrefix + "swept"
)

// stampOf returns the date in a dated id, as it stands there.
func stampOf(id string) (string, bool) {
	rest, ok := strings.CutPrefix(id, datedMark)
	if !ok || len(rest) <= len(stampLayout) || rest[len(stampLayout)] != '-' {
		return "", false
	}
	stamp := rest[:len(stampLayout)]
	t, err := time.Parse(stampLayout, stamp)
	return stamp, err == nil && t.Year() >= firstYear
}

func stampTime(stamp string) time.Time {
	t, err := time.Parse(stampLayout, stamp)
	if err != nil {
		return time.Time{} // stampOf has refused it
	}
	return t
}

type dateRecord struct {
	Format int       `json:"format"`
	Before time.Time `json:"before"`
}

const dateFormat = 1

// horizonOf reads the record of horizonKey or sweptKey. Absent is the zero time.
func horizonOf(e Entry) (time.Time, error) {
	if e.Rev == 0 {
		return time.Time{}, nil
	}
	var rec dateRecord
	if err := json.Unmarshal(e.Value, &rec); err != nil {
		return time.Time{}, fmt.Errorf("cas: %q at revision %d is unreadable: %w", e.Key, e.Rev, err)
	}
	if rec.Format != dateFormat {
		return time.Time{}, fmt.Errorf("cas: %q has format %d, this version reads %d", e.Key, rec.Format, dateFormat)
	}
	return rec.Before, nil
}

func putDate(key string, before time.Time) (Op, error) {
	b, err := json.Marshal(dateRecord{Format: dateFormat, Before: before.UTC()})
	return Put(key, b), err
}
