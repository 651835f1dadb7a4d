package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenure-go/tenure/bench/internal/report"
)

const usage = `bench asks the same of Tenure, of locks and of other ways to own, on this machine or on your servers, and prints tables.
With -quick it takes half a minute, with no flag about two minutes, with -servers some more, and with -full much longer; the
plan is printed at the start.

`

func help() {
	fmt.Fprint(flag.CommandLine.Output(), usage)
	flag.PrintDefaults()
}

// validate says what of the flags makes no sense, before anything is started.
func (o options) validate() error {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.rounds < 0 {
		refuse("-rounds is %d: want at least 0", o.rounds)
	}
	if o.trials < 0 {
		refuse("-trials is %d: want at least 0", o.trials)
	}
	if o.shards < 1 {
		refuse("-shards is %d: want at least 1", o.shards)
	}
	if o.quick && o.full {
		refuse("-quick and -full: want one of them")
	}
	for _, part := range list(o.only) {
		if !strings.Contains(strings.Join(names(), "\n"), part) {
			refuse("-only: no question's name contains %q: want some of %s", part, strings.Join(names(), ", "))
		}
	}
	if o.only != "" && len(list(o.only)) == 0 {
		refuse("-only: names nothing: want some of %s", strings.Join(names(), ", "))
	}
	return errors.Join(faults...)
}

// writable says which of the results' files could not be written: better now than after the run. It leaves no file behind.
func (o options) writable() error {
	var faults []error
	for flag, file := range map[string]string{"-json": o.json, "-html": o.html} {
		if file != "" {
			faults = append(faults, named(flag, try(file)))
		}
	}
	if o.markdown != "" {
		readme := filepath.Join(o.markdown, "README.md")
		err := os.MkdirAll(o.markdown, 0o755)
		if err == nil {
			err = try(readme)
		}
		if err == nil {
			err = intoNothing(readme)
		}
		faults = append(faults, named("-markdown", err))
	}
	return errors.Join(faults...)
}

func named(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// try opens file to be written, and changes nothing.
func try(file string) error {
	_, before := os.Stat(file)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = f.Close()
	if errors.Is(before, fs.ErrNotExist) {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// intoNothing says whether a README that is there has a place for tables.
func intoNothing(file string) error {
	document, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = report.Insert(string(document), "")
	}
	return err
}
