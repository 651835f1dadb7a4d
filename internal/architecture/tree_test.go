package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// tree is the top of the repository. A module that was downloaded is only a part of it, and is not held to
// what concerns the whole.
func tree(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(top, "go.work")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no go.work: not in a checkout of the repository")
	}
	return top
}

// readTree returns the text of each file, by its slash-separated name. Binary files, and directories
// whose names begin with a dot (but .ci) or that tools write to, are left out.
func readTree(t *testing.T, top string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			base := d.Name()
			if rel != "." && strings.HasPrefix(base, ".") && base != ".ci" {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || slices.Contains([]string{".test", ".out", ".prof"}, path.Ext(rel)) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
			files[rel] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func run(t *testing.T, dir string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// rootPackages are the packages of the root module, with imports from all their files and what the
// go command says they lead to.
func rootPackages(t *testing.T, top string, sources []source) []goPackage {
	t.Helper()
	byPath := make(map[string]*goPackage)
	var order []string
	out := json.NewDecoder(bytes.NewReader(run(t, top, "go", "list", "-deps", "-json=ImportPath,Deps", "./...")))
	for {
		var p struct {
			ImportPath string
			Deps       []string
		}
		if err := out.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if own, ok := below(p.ImportPath); ok {
			byPath[own] = &goPackage{Path: own, Deps: p.Deps}
			order = append(order, own)
		}
	}
	if len(order) == 0 {
		t.Fatal("go list names no package of this module")
	}
	for _, s := range sources {
		p := byPath[path.Dir(s.name)]
		switch {
		case p == nil: // another module's
		case s.isTest():
			p.Tests = append(p.Tests, s.imports()...)
		default:
			p.Imports = append(p.Imports, s.imports()...)
		}
	}
	var pkgs []goPackage
	for _, own := range order {
		pkgs = append(pkgs, *byPath[own])
	}
	return pkgs
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

func TestTree(t *testing.T) {
	top := tree(t)
	files := readTree(t, top)
	var sources []source
	for name, text := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		s, err := parseSource(name, []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		sources = append(sources, s)
	}
	slices.SortFunc(sources, func(a, b source) int { return strings.Compare(a.name, b.name) })

	t.Run("imports", func(t *testing.T) {
		report(t, checkPackages(rootPackages(t, top, sources)))
	})
	t.Run("requirements", func(t *testing.T) {
		var mod struct{ Require []struct{ Path string } }
		if err := json.Unmarshal(run(t, top, "go", "mod", "edit", "-json"), &mod); err != nil {
			t.Fatal(err)
		}
		var modules []string
		for _, r := range mod.Require {
			modules = append(modules, r.Path)
		}
		report(t, checkRequirements(modules))
	})
	t.Run("source", func(t *testing.T) {
		for _, s := range sources {
			report(t, checkSource(s))
		}
		report(t, checkSleeps(sources))
	})
	t.Run("text", func(t *testing.T) {
		for name, text := range files {
			report(t, checkName(name))
			report(t, checkText(name, text))
		}
	})
	t.Run("documents", func(t *testing.T) {
		compiled := make(map[string]string)
		for name, text := range files {
			if path.Dir(name) == "examples/hello" {
				compiled[name] = text
			}
		}
		exists := func(name string) bool {
			_, err := os.Stat(filepath.Join(top, filepath.FromSlash(name)))
			return err == nil
		}
		for name, text := range files {
			if path.Ext(name) == ".md" {
				report(t, checkExcerpts(name, text, compiled))
				report(t, checkLinks(name, text, exists))
			}
		}
	})
	t.Run("readme", func(t *testing.T) {
		for _, command := range []string{"go run ./examples/quickstart", "go test work"} {
			if !strings.Contains(files["README.md"], command) {
				t.Errorf("README.md does not show %q", command)
			}
		}
	})
}
