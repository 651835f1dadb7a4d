package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxLines is how long a file may be that is neither a test nor generated: one that is longer holds
// more than one concept.
const maxLines = 400

// pure packages are functions of their arguments: no I/O, clock, goroutine, lock, context or
// randomness of their own. That is what lets a test replay any order of events.
var pure = []string{"shard", "owner/internal/machine"}

// impureImports are what a pure package may not import, nor anything below them. Package time is allowed
// for its types; see clockReaders.
var impureImports = []string{
	"context", "crypto/rand", "io", "log", "math/rand", "net", "os", "runtime", "sync", "syscall", "testing",
}

// clockReaders are what of package time reads a clock or waits for it.
var clockReaders = []string{
	"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until",
}

// source is a parsed Go file.
type source struct {
	name  string // slash-separated, from the top of the tree
	lines int
	fset  *token.FileSet
	file  *ast.File
}

func parseSource(name string, text []byte) (source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{name: name, lines: strings.Count(string(text), "\n"), fset: fset, file: f}, err
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s source) imports() []string {
	var paths []string
	for _, imp := range s.file.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			continue // the parser has accepted it, so it can't be
		}
		paths = append(paths, p)
	}
	return paths
}

// checkSource reports what in a file breaks a rule for Go source.
func checkSource(s source) []string {
	var faults []string
	fault := func(at token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", s.fset.Position(at), fmt.Sprintf(format, args...)))
	}
	if ast.IsGenerated(s.file) {
		return nil // the generator's style
	}
	if !s.isTest() && s.lines > maxLines {
		faults = append(faults, fmt.Sprintf("%s: %d lines, at most %d: a file holds one concept", s.name, s.lines, maxLines))
	}
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			fault(f.Pos(), "func init: importing a package must do nothing")
		}
	}
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if r, ok := foreignLetter(c.Text); ok {
				fault(c.Pos(), "a comment has %q: comments are English", r)
			}
			if word := leftover.FindString(c.Text); word != "" {
				fault(c.Pos(), "a comment says %s: do it, or leave it", word)
			}
		}
	}
	if !s.isTest() && slices.Contains(pure, path.Dir(s.name)) {
		checkPure(s, fault)
	}
	return faults
}

// checkSleeps reports tests that sleep on real time. In a bubble of virtual time a sleep is exact and
// costs nothing, and a package's helper may be what opens the bubble: so its tests as a whole must know
// of testing/synctest.
func checkSleeps(sources []source) []string {
	var faults []string
	virtual := make(map[string]bool)
	for _, s := range sources {
		if s.isTest() && slices.Contains(s.imports(), "testing/synctest") {
			virtual[path.Dir(s.name)] = true
		}
	}
	for _, s := range sources {
		if at := selects(s.file, "time", "Sleep"); s.isTest() && at.IsValid() && !virtual[path.Dir(s.name)] {
			faults = append(faults, fmt.Sprintf("%s: time.Sleep in a test: use testing/synctest, or wait for a condition with a deadline", s.fset.Position(at)))
		}
	}
	return faults
}

// leftover matches words that mark what was not finished.
var leftover = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

func checkPure(s source, fault func(token.Pos, string, ...any)) {
	for _, imp := range s.file.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		for _, bad := range impureImports {
			if within(p, bad) {
				fault(imp.Pos(), "imports %s: this package is pure; take it as an argument", p)
			}
		}
	}
	for _, name := range clockReaders {
		if at := selects(s.file, "time", name); at.IsValid() {
			fault(at, "time.%s: this package is pure; take the time as an argument", name)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(n.Pos(), "go statement: this package is pure")
		case *ast.ChanType:
			fault(n.Pos(), "channel: this package is pure")
		case *ast.SelectStmt:
			fault(n.Pos(), "select: this package is pure")
		}
		return true
	})
}

// selects finds a use of pkg.name, under whatever name the file has imported pkg.
func selects(f *ast.File, pkg, name string) token.Pos {
	local := ""
	for _, imp := range f.Imports {
		if p, _ := strconv.Unquote(imp.Path.Value); p == pkg {
			local = path.Base(pkg)
			if imp.Name != nil {
				local = imp.Name.Name
			}
		}
	}
	at := token.NoPos
	if local == "" {
		return at
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == name && !at.IsValid() {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				at = sel.Pos()
			}
		}
		return true
	})
	return at
}

// foreignLetter finds a letter of a script that English, with its loan words and formulas, does not use.
func foreignLetter(text string) (rune, bool) {
	for _, r := range text {
		if unicode.IsLetter(r) && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Common) {
			return r, true
		}
	}
	return 0, false
}
