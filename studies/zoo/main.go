// Package zoo runs gpexplain on networks of many kinds as PyTorch exports them, and
// records what each step takes and whether its numbers are right.
//
//	/usr/bin/python3 zoo/generate.py -data DIR -out cache
//	go run ./gpstudies zoo -cache cache -json results.json -table table.md
//	go run ./gpstudies zoo -cache cache -only lstm
//	go run ./gpstudies zoo -render results.json -table table.md
//
// The result of every network is kept in its folder of -cache, and a second run goes
// on from there; -again measures those anew.
package zoo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

type options struct {
	cache, command      string
	only                *regexp.Regexp
	again               bool
	json, render, table string
}

// Run measures, or draws recorded results again.
func Run(ctx context.Context, out io.Writer, args []string) error {
	var o options
	f := flag.NewFlagSet("zoo", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.cache, "cache", "cache", "directory of the networks that generate.py wrote; results are kept in it")
	f.StringVar(&o.command, "command", "", "gpexplain to measure; without it that of this repository is built")
	only := f.String("only", "", "measure the networks whose name matches this regular expression")
	f.BoolVar(&o.again, "again", false, "measure also what the cache has results of")
	f.StringVar(&o.json, "json", "", "write all results that the cache holds here")
	f.StringVar(&o.render, "render", "", "read results from here instead of measuring")
	f.StringVar(&o.table, "table", "", "write tables in Markdown here")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.render != "" {
		all, err := readResults(o.render)
		if err != nil {
			return err
		}
		return writeTable(o.table, all)
	}
	failed := campaign(ctx, &o)
	all, err := cachedResults(o.cache)
	if err != nil {
		return errors.Join(failed, err)
	}
	if o.json != "" {
		failed = errors.Join(failed, writeJSON(o.json, all))
	}
	return errors.Join(failed, writeTable(o.table, all))
}

// campaign measures every network that was asked for and has no result yet. One that
// fails does not stop the others.
func campaign(ctx context.Context, o *options) error {
	names, err := filepath.Glob(filepath.Join(o.cache, "*", "expected.json"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no networks in %s; write them with generate.py", o.cache)
	}
	if o.command == "" {
		if o.command, err = build(ctx, o.cache); err != nil {
			return err
		}
	}
	var failed error
	for _, path := range names {
		dir := filepath.Dir(path)
		name := filepath.Base(dir)
		if _, err := os.Stat(filepath.Join(dir, resultFile)); !o.only.MatchString(name) || err == nil && !o.again {
			continue
		}
		r, err := measure(ctx, o.command, dir)
		if err == nil {
			err = writeJSON(filepath.Join(dir, resultFile), r)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
		if ctx.Err() != nil {
			return failed
		}
	}
	return failed
}

// build makes the command of this repository.
func build(ctx context.Context, cache string) (string, error) {
	path, err := filepath.Abs(filepath.Join(cache, "gpexplain"))
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/gpexplain")
	c.Dir = ".."
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
}
