// Package calibration measures what calibration by leave-one-out does to the
// predictions of networks: it trains them, fits posteriors, calibrates without a
// held-out row, and compares with the network alone, with a temperature chosen on
// held-out rows and with the mean of several networks.
//
//	go run ./gpstudies calibration -data DIR -reference DIR -cache DIR -json results.json -table table.md
//	go run ./gpstudies calibration -data DIR -reference DIR -cache DIR -only uci/glass
//	go run ./gpstudies calibration -render results.json -table table.md
//	go run ./gpstudies calibration -data DIR -reference DIR -cache DIR -coverage coverage.json -table table.md
//
// DIR of -data holds the folders mnist, kmnist and uci, that of -reference the
// reference networks. Trained networks and the results of each case are kept in
// the directory of -cache, and a second run goes on from them.
package calibration

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
)

type options struct {
	data, reference, cache string
	lenet                  string
	only                   *regexp.Regexp
	trainOnly              bool
	json, render, table    string
	coverage               string
}

// Run measures, or draws recorded results again.
func Run(ctx context.Context, out io.Writer, args []string) error {
	var o options
	f := flag.NewFlagSet("calibration", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.data, "data", "../../shared/data", "directory with the folders mnist, kmnist and uci")
	f.StringVar(&o.reference, "reference", "../../shared/reference", "directory of the reference networks")
	f.StringVar(&o.cache, "cache", "cache", "keep networks, posteriors and results here")
	f.StringVar(&o.lenet, "lenet", "", "LeNet-5 that gpexplain trained on MNIST's first 55,000 rows; without it the case lenet5 is left out")
	only := f.String("only", "", "measure the cases whose name matches this regular expression")
	f.BoolVar(&o.trainOnly, "train-only", false, "train the networks and stop")
	f.StringVar(&o.json, "json", "", "write all results that the cache holds here")
	f.StringVar(&o.render, "render", "", "read results from here instead of measuring")
	f.StringVar(&o.table, "table", "", "write tables in Markdown here")
	f.StringVar(&o.coverage, "coverage", "", "measure the coverage of intervals and sets by jackknife+ instead, and write the results here")
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
		return writeTables(o.table, all)
	}
	if err := os.MkdirAll(o.cache, 0o755); err != nil {
		return err
	}
	if o.coverage != "" {
		return measureCoverage(ctx, &o)
	}
	failed := campaign(ctx, &o)
	all, err := cachedResults(o.cache)
	if err != nil {
		return errors.Join(failed, err)
	}
	if o.json != "" {
		failed = errors.Join(failed, writeJSON(o.json, all))
	}
	return errors.Join(failed, writeTables(o.table, all))
}

// campaign measures every case that was asked for and is not in the cache yet.
// A case that fails does not stop the others.
func campaign(ctx context.Context, o *options) error {
	cases, err := allCases(o)
	if err != nil {
		return err
	}
	var failed error
	for _, c := range cases {
		if !o.only.MatchString(c.name) {
			continue
		}
		for _, split := range c.splits {
			if err := c.measure(ctx, o, split); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s split %d: %w", c.name, split, err))
				fmt.Fprintln(os.Stderr, failed)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return failed
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "")
	if err != nil {
		return err
	}
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
