package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTimeout bounds the check of one register. One that takes longer has not been proved, and counts as failed.
const checkTimeout = 30 * time.Second

// model is a register that holds a number.
var model = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, in, out any) (bool, any) {
		value, o, seen := state.(int64), in.(op), out.(op)
		switch o.Kind {
		case opRead:
			return seen.Value == value, value
		case opAdd:
			sum := value + o.Arg
			return seen.Outcome != ok || seen.Value == sum, sum
		default:
			return true, o.Arg
		}
	},
	DescribeOperation: func(in, out any) string {
		o, seen := in.(op), out.(op)
		text := fmt.Sprintf("%s %s %d -> %d", o.ID, o.Kind, o.Arg, seen.Value)
		if seen.Outcome != ok {
			text = fmt.Sprintf("%s %s %d -> ?", o.ID, o.Kind, o.Arg)
		}
		return text
	},
	DescribeOperationMetadata: func(about any) string { return fmt.Sprint(about) },
}

// operations is what porcupine is to find an order of: what failed for certain did not happen, and an uncertain
// read says nothing. An uncertain write may happen at any time after it was sent.
func operations(ops []op) []porcupine.Operation {
	var all []porcupine.Operation
	for _, o := range ops {
		end := int64(o.Return)
		switch {
		case o.Outcome == fail, o.Outcome == uncertain && o.Kind == opRead:
			continue
		case o.Outcome == uncertain:
			end = math.MaxInt64
		}
		all = append(all, porcupine.Operation{
			ClientId: o.Client, Input: o, Output: o, Call: int64(o.Call), Return: end,
			Metadata: fmt.Sprintf("%s epoch %s %s", o.Node, o.Epoch, o.Err),
		})
	}
	return all
}

// byRegister sorts operations by their keys.
func byRegister(ops []op) map[string][]op {
	all := make(map[string][]op)
	for _, o := range ops {
		all[o.Key] = append(all[o.Key], o)
	}
	return all
}

// checkRegisters looks for an order of each register's operations that explains what the clients saw. Pictures of
// those without go to dir.
func checkRegisters(ops []op, dir string) error {
	var faults []error
	registers := byRegister(ops)
	for _, key := range slices.Sorted(maps.Keys(registers)) {
		result, info := porcupine.CheckOperationsVerbose(model, operations(registers[key]), checkTimeout)
		if result == porcupine.Ok {
			continue
		}
		fault := fmt.Errorf("register %s is not linearizable (%d operations)", key, len(registers[key]))
		if result == porcupine.Unknown {
			fault = fmt.Errorf("register %s: no verdict within %v (%d operations)", key, checkTimeout, len(registers[key]))
		}
		faults = append(faults, errors.Join(fault, picture(info, filepath.Join(dir, "register-"+key+".html"))))
	}
	return errors.Join(faults...)
}

func picture(info porcupine.LinearizationInfo, name string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := porcupine.Visualize(model, info, f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
