package main

import "testing"

// What was read from the database is never newer than what was committed here since.
func TestBook_ReadDoesNotUndoACommit(t *testing.T) {
	b := newBook()
	b.turn(map[string]int64{"alice": 7}) // while a read that began before it is under way
	b.learn(map[string]int64{"alice": 5, "bob": 3})
	for account, want := range map[string]int64{"alice": 7, "bob": 3} {
		if got, known := b.balance(account); !known || got != want {
			t.Errorf("%s: got %d, %t, want %d", account, got, known, want)
		}
	}
}

// A change between the look and the wait is not missed, nor does one wake those who watch another account.
func TestBook_Next(t *testing.T) {
	b := newBook()
	alice, bob := b.next("alice"), b.next("bob")
	b.turn(map[string]int64{"alice": 1})
	select {
	case <-alice:
	default:
		t.Error("alice has changed, and her watchers sleep")
	}
	select {
	case <-bob:
		t.Error("bob's watchers are woken by alice's change")
	case <-b.next("alice"):
		t.Error("who watches alice now is woken by a change of before")
	default:
	}
}
