package accounts

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// dockerfile is the instructions of examples/accounts/Dockerfile, in stages.
type dockerfile struct {
	top    string
	stages [][]instruction
}

type instruction struct{ word, rest string }

func readDockerfile(t testing.TB) *dockerfile {
	t.Helper()
	d := &dockerfile{top: top(t)}
	b, err := os.ReadFile(filepath.Join(d.top, "examples/accounts/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" {
			d.stages = append(d.stages, nil)
		}
		if len(d.stages) == 0 {
			t.Fatalf("Dockerfile: %q comes before FROM", line)
		}
		last := len(d.stages) - 1
		d.stages[last] = append(d.stages[last], instruction{word, strings.TrimSpace(rest)})
	}
	return d
}

// all are the arguments of a stage's instructions of one word.
func (d *dockerfile) all(stage int, word string) (rest []string) {
	for _, i := range d.stages[stage] {
		if i.word == word {
			rest = append(rest, i.rest)
		}
	}
	return rest
}

// built is where the first stage puts the program.
const builtAt = "/out/accounts"

// buildCommand is the one that builds the program, with its result in dir instead.
func (d *dockerfile) buildCommand(dir string) (*exec.Cmd, error) {
	for _, run := range d.all(0, "RUN") {
		if !strings.Contains(run, "go build") {
			continue
		}
		if !strings.Contains(run, " "+builtAt+" ") {
			return nil, fmt.Errorf("Dockerfile: %q does not put the program at %s", run, builtAt)
		}
		cmd := exec.Command("sh", "-c", strings.Replace(run, builtAt, `"$OUT"`, 1))
		cmd.Dir = d.top
		cmd.Env = append(os.Environ(), "OUT="+filepath.Join(dir, "accounts"))
		return cmd, nil
	}
	return nil, errors.New("Dockerfile: no RUN go build")
}

// The image can be built: each file that is copied is there, each module can be had from those that are copied before it,
// the program builds, and it is what the last stage takes.
func TestImageBuilds(t *testing.T) {
	d := readDockerfile(t)
	if len(d.stages) != 2 {
		t.Fatalf("got %d stages, want 2", len(d.stages))
	}
	// What stands before the whole tree is copied must do with what was copied until then.
	sparse := t.TempDir()
	for _, i := range d.stages[0] {
		switch {
		case i.word == "COPY" && i.rest == ". .":
			sparse = d.top
		case i.word == "COPY":
			words := strings.Fields(i.rest)
			for _, from := range words[:len(words)-1] {
				copyFile(t, filepath.Join(d.top, from), filepath.Join(sparse, words[len(words)-1], filepath.Base(from)))
			}
		case i.word == "RUN" && !strings.Contains(i.rest, "go build"):
			cmd := exec.Command("sh", "-c", i.rest)
			cmd.Dir = sparse
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("RUN %s: %v\n%s", i.rest, err, out)
			}
		}
	}
	out, err := exec.Command(built.path(t), "-h").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("DATABASE_URL")) {
		t.Errorf("the program's -h: %v\n%s", err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The image holds a program that needs nothing else, and does not run it as root.
func TestImageRuns(t *testing.T) {
	d := readDockerfile(t)
	last := len(d.stages) - 1
	if got := d.all(last, "FROM"); len(got) != 1 || !strings.Contains(got[0], "static") {
		t.Errorf("FROM %q: want an image for static programs", got)
	}
	if got, want := d.all(last, "COPY"), "--from=build "+builtAt+" /accounts"; len(got) != 1 || got[0] != want {
		t.Errorf("COPY %q: want %q", got, want)
	}
	if got := d.all(last, "ENTRYPOINT"); len(got) != 1 || got[0] != `["/accounts"]` {
		t.Errorf("ENTRYPOINT %q: want the program that was copied", got)
	}
	if uid := imageUser(t); uid == 0 {
		t.Error("the image runs as root")
	}
	f, err := elf.Open(built.path(t))
	if err != nil {
		t.Skipf("the program is none of ELF here: %v", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program is linked dynamically: the image has no libraries")
		}
	}
}

// imageUser is the number of the user that the image runs as.
func imageUser(t *testing.T) int64 {
	t.Helper()
	d := readDockerfile(t)
	user := d.all(len(d.stages)-1, "USER")
	if len(user) != 1 {
		t.Fatalf("USER %q: want one", user)
	}
	number := regexp.MustCompile(`^(\d+)(:\d+)?$`).FindStringSubmatch(user[0])
	if number == nil {
		t.Fatalf("USER %q: want a number: by a name Kubernetes can't tell that it is not root", user[0])
	}
	uid, err := strconv.ParseInt(number[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return uid
}
