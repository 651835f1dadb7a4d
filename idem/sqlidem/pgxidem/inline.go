package pgxidem

import (
	"regexp"
	"strconv"
	"strings"
)

var param = regexp.MustCompile(`\$\d+`)

// inline puts args in the place of a statement's parameters, so that it can be sent in one string with
// others. They are numbers, ids of package idem, and nothing: whatever else there is becomes a value
// that no statement takes for text of its own.
func inline(stmt string, args ...any) string {
	return param.ReplaceAllStringFunc(stmt, func(p string) string {
		n, err := strconv.Atoi(p[1:])
		if err != nil || n < 1 || n > len(args) {
			return "NULL"
		}
		switch v := args[n-1].(type) {
		case int64:
			return strconv.FormatInt(v, 10)
		case string:
			return "'" + strings.Map(plain, v) + "'"
		}
		return "NULL"
	})
}

// plain drops what is in no id.
func plain(r rune) rune {
	if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
		return r
	}
	return -1
}
