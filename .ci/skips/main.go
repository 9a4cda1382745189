// Command skips reads what go test -json writes and prints what go test prints without it. It fails where a test
// failed, and where one was skipped that no line of allowed.txt names:
//
//	go test -json ./... | go run ./.ci/skips
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// allowed has a line for each kind of test that may skip: a regular expression of its package and name, as
// cmd/gpexplain.TestExport, a tab, and one of what it says.
//
//go:embed allowed.txt
var allowed string

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

// An event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

// A rule is a line of allowed.txt.
type rule struct{ test, reason *regexp.Regexp }

// rules reads allowed.txt.
func rules(text string) ([]rule, error) {
	var list []rule
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		test, reason, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("allowed.txt:%d: %q has no tab", i+1, line)
		}
		a, err := regexp.Compile("^(?:" + test + ")$")
		b, err2 := regexp.Compile(reason)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("allowed.txt:%d: %w", i+1, err)
		}
		list = append(list, rule{a, b})
	}
	return list, nil
}

func run(in io.Reader, out io.Writer) error {
	list, err := rules(allowed)
	if err != nil {
		return err
	}
	said := map[string]string{} // by test, what it printed
	skipped, failed, unknown := 0, 0, 0
	lines := json.NewDecoder(in)
	for {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		id := e.Package + "." + e.Test
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "build-fail":
			failed++
		case "output":
			if e.Test == "" {
				// The binary of a package says PASS of itself, where go test says ok.
				if e.Output != "PASS\n" {
					fmt.Fprint(out, e.Output)
				}
				break
			}
			said[id] += e.Output
		case "fail":
			failed++
			fmt.Fprint(out, said[id])
			delete(said, id)
		case "skip":
			if e.Test == "" {
				break // a package without tests
			}
			skipped++
			name := strings.TrimPrefix(id, "github.com/funcgp/funcgp/")
			known := false
			for _, r := range list {
				known = known || r.test.MatchString(name) && r.reason.MatchString(said[id])
			}
			if !known {
				unknown++
				fmt.Fprintf(out, "skipped, and not in .ci/skips/allowed.txt: %s\n%s", name, said[id])
			}
			delete(said, id)
		case "pass":
			delete(said, id)
		}
	}
	fmt.Fprintf(out, "%d tests skipped\n", skipped)
	if failed+unknown > 0 {
		return fmt.Errorf("%d failed, %d skipped for a reason that is not allowed", failed, unknown)
	}
	return nil
}
