// Package bench measures sparse posteriors on all of MNIST: predictions
// on the test digits and the detection of inputs of another kind, by the
// network alone, by subsets of the data and by Nyström posteriors of several
// sizes, at the precision of training and at one that held-out rows choose.
//
//	go run ./gpstudies bench -model lenet.onnx -mnist DIR -kmnist DIR -json results.json
//	go run ./gpstudies bench -render results.json -table sparse.md -plot sparse.png
//
// The model must have been trained by gpexplain on the first training rows;
// those after them choose the precision.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

type options struct {
	model, mnist, kmnist string
	train, valid, limit  int
	sizes                []int
	keep                 string
	distance             int
	structures           string
	within               []float64
	other                float64
	otherOnly            bool
	search               int
	exact                float64
	precisions           string
	json, render         string
	table, plot          string
	add                  string
}

// Run measures, or draws recorded results again.
func Run(ctx context.Context, out io.Writer, args []string) error {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.model, "model", "", "network that gpexplain trained")
	f.StringVar(&o.mnist, "mnist", "", "directory of MNIST's files")
	f.StringVar(&o.kmnist, "kmnist", "", "directory of Kuzushiji-MNIST's test files")
	f.IntVar(&o.train, "train", 55000, "training rows, the first ones")
	f.IntVar(&o.valid, "valid", 5000, "training rows that choose the precision, the last ones")
	f.IntVar(&o.limit, "limit", 10000, "rows of each test set")
	sizes := f.String("m", "50,100,200,400", "numbers of inducing examples, ascending")
	f.StringVar(&o.keep, "keep", "", "read the posterior at the largest M from here, or write it here after the pass")
	f.IntVar(&o.distance, "distance", 0, "print the distance to the exact posterior of this many training rows instead")
	f.StringVar(&o.structures, "structures", "", "measure posteriors over the parameters with these structures instead, such as kfac,diag")
	within := f.String("within", "", "compare posteriors of kept rows, whose variances are within these parts of those of all rows, such as .05,.01, instead")
	f.Float64Var(&o.other, "other", 243, "a second precision for -within")
	f.Float64Var(&o.exact, "exact", 0, "measure exact posteriors of kept rows instead, whose variances are at most this part larger")
	f.StringVar(&o.add, "add", "", "add the rows of -exact to these results")
	f.StringVar(&o.precisions, "precisions", "243,5", "precisions of -exact")
	f.BoolVar(&o.otherOnly, "other-only", false, "leave out the precision of training with -within")
	f.IntVar(&o.search, "search", 1500, "training rows on which -within finds its threshold")
	f.StringVar(&o.json, "json", "results.json", "write results here")
	f.StringVar(&o.render, "render", "", "read results from here instead of measuring")
	f.StringVar(&o.table, "table", "", "write a table in Markdown here")
	f.StringVar(&o.plot, "plot", "", "write a chart here")
	if err := f.Parse(args); err != nil {
		return err
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		m, err := strconv.Atoi(s)
		if err != nil || m < 1 || len(o.sizes) > 0 && m <= o.sizes[len(o.sizes)-1] {
			return fmt.Errorf("-m %s must be ascending numbers", *sizes)
		}
		o.sizes = append(o.sizes, m)
	}
	if *within != "" {
		for s := range strings.SplitSeq(*within, ",") {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || !(v > 0) {
				return fmt.Errorf("-within %s must be positive numbers", *within)
			}
			o.within = append(o.within, v)
		}
		return measureKept(ctx, &o)
	}
	if o.distance > 0 {
		return measureDistance(ctx, &o)
	}
	if o.exact > 0 {
		return measureExact(ctx, &o)
	}
	if o.structures != "" {
		return measureStructures(ctx, &o)
	}
	var r *results
	if o.render == "" {
		var err error
		if r, err = measure(ctx, &o); err != nil {
			return err
		}
		if err := writeJSON(o.json, r); err != nil {
			return err
		}
	} else {
		var err error
		if r, err = readResults(o.render); err != nil {
			return err
		}
	}
	return errors.Join(r.writeTable(o.table), r.writePlot(o.plot))
}

func readResults(path string) (*results, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(results)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
