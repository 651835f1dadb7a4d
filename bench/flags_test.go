package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidate_NamesWhatIsWrong(t *testing.T) {
	for want, o := range map[string]options{
		"":                                       {shards: 1, only: "zo,hot"},
		"-rounds is -3: want at least 0":         {shards: 1, rounds: -3},
		"-trials is -1: want at least 0":         {shards: 1, trials: -1},
		"-shards is 0: want at least 1":          {},
		"-quick and -full: want one of them":     {shards: 1, quick: true, full: true},
		`contains "nope": want some of zombie, `: {shards: 1, only: "zombie,nope"},
		"-only: names nothing":                   {shards: 1, only: ","},
	} {
		err := o.validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%+v: got %v, want only %q", o, err, want)
		}
	}
}

// Files are tried before the run, and what was there stays as it was.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	there, readme := filepath.Join(dir, "there.json"), filepath.Join(dir, "README.md")
	for file, text := range map[string]string{there: "old", readme: "no marks"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nowhere := filepath.Join(dir, "nowhere", "x")
	for want, o := range map[string]options{
		"":           {json: there, html: filepath.Join(dir, "new.html"), markdown: filepath.Join(dir, "other")},
		"-json: ":    {json: nowhere},
		"-html: ":    {html: nowhere},
		"-markdown:": {markdown: dir},
	} {
		err := o.writable()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "old" {
		t.Errorf("the file that was there: got %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new.html")); err == nil {
		t.Error("an empty file is left behind")
	}
}
