// Package architecture holds what the tree as a whole must keep to, as tests. It has no code to import.
//
// Its rules are functions over plain values: packages.go for imports, source.go for Go source, text.go
// for every file. tree_test.go reads this tree and applies them; the tests beside each rule break
// it on purpose and expect to be told so.
//
// A rule that stands in the way of a change is changed here, in the same commit, with the reason.
package architecture
