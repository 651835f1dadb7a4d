package pgxfence

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// manyResults is how many results without rows, a line each, fit easily into a connection's buffers.
const manyResults = 1000

// inspect refuses a batch that holds what ends a transaction, or begins one, as far as a statement's first words
// tell; and reports whether its results may be large. Each write pays for this, so it looks at no more
// than it must, and at equal statements in a row once.
func inspect(b *pgx.Batch) (rows bool, err error) {
	if b == nil {
		return false, refused("pgxfence: Batch: the pgx.Batch is nil")
	}
	rows = len(b.QueuedQueries) > manyResults
	last := ""
	for i, q := range b.QueuedQueries {
		if i > 0 && q.SQL == last {
			continue
		}
		last = q.SQL
		word, rest := firstWord(q.SQL)
		if endsTransaction(word, rest) {
			return false, refused("pgxfence: Batch: statement %d (%s) begins or ends a transaction, which only Batch may", i+1, word)
		}
		rows = rows || returnsRows(word, rest)
	}
	return rows, nil
}

// skipComments cuts off what stands before a statement's first word. Comments in slashes nest.
func skipComments(stmt string) string {
	for {
		stmt = strings.TrimLeft(stmt, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(stmt, "--"):
			end := strings.IndexAny(stmt, "\r\n")
			if end < 0 {
				return ""
			}
			stmt = stmt[end:]
		case strings.HasPrefix(stmt, "/*"):
			stmt = afterComment(stmt)
		default:
			return stmt
		}
	}
}

func afterComment(stmt string) string {
	for i, depth := 0, 0; i+1 < len(stmt); i++ {
		switch stmt[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return stmt[i+1:]
			}
		}
	}
	return ""
}

// firstWord splits off the letters that a statement begins with.
func firstWord(stmt string) (word, rest string) {
	stmt = skipComments(stmt)
	for i, c := range []byte(stmt) {
		if letter := 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || '0' <= c && c <= '9'; !letter {
			return stmt[:i], stmt[i:]
		}
	}
	return stmt, ""
}

func endsTransaction(word, rest string) bool {
	if strings.EqualFold(word, "prepare") {
		next, _ := firstWord(rest)
		return strings.EqualFold(next, "transaction")
	}
	return anyFold(word, "begin", "start", "commit", "end", "rollback", "abort")
}

// returnsRows reports whether a statement may have more of a result than a line.
func returnsRows(word, rest string) bool {
	return !anyFold(word, "insert", "update", "delete") || containsFold(rest, "returning")
}

func anyFold(word string, of ...string) bool {
	for _, w := range of {
		if len(w) == len(word) && strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}

// containsFold is strings.Contains for a lower-case word, whatever the case in s.
func containsFold(s, word string) bool {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0] && strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
	}
	return false
}
