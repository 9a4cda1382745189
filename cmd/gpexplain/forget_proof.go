package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// sumOf is the SHA-256 in hex of numbers as little-endian doubles.
func sumOf(parts ...[]float64) string {
	h := sha256.New()
	for _, v := range parts {
		for _, x := range v {
			// It returns no error: neither do the hash nor the conversion.
			_ = binary.Write(h, binary.LittleEndian, x)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// forgetFileOf is the file of a posterior with the checksum of its training inputs.
func forgetFileOf(ctx context.Context, path string, p *problem.Problem, q *inference.Posterior) (forgetFile, error) {
	inputs, err := linearize.FingerprintOf(ctx, q.Dual.Data())
	if err != nil {
		return forgetFile{}, err
	}
	return forgetFile{File: path, Examples: p.Examples.Train.Len(), Inputs: hex.EncodeToString(inputs.Data.Inputs[:])}, nil
}

// prove fills in how far the posterior is from the mode without the rows (E19), and the
// largest changes of its mean.
func (r *forgetReport) prove(ctx context.Context, c *console.Console, old, p *problem.Problem, before, after *inference.Posterior) error {
	m, err := inference.Counterfactual(ctx, c.Job, p, after, "forget")
	if err != nil {
		return err
	}
	d, err := m.Distance(ctx)
	if err != nil {
		return p.TrainNames().ExplainError(err)
	}
	r.Distance = result.Float(d)
	gone := make(map[int]bool, len(r.Rows))
	for _, row := range r.Rows {
		gone[row.Row] = true
	}
	outputs := p.Model.Outputs
	largest := 0.0
	err = before.Dual.Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		n := b.Len()
		was, is, prior := mat.NewDense(n, outputs, nil), mat.NewDense(n, outputs, nil), mat.NewDense(n*outputs, outputs, nil)
		if err := before.Dual.PredictTo(ctx, was, nil, b); err != nil {
			return err
		}
		if err := after.Dual.PredictTo(ctx, is, nil, b); err != nil {
			return err
		}
		after.Kernel.DiagTo(prior, b)
		for i := range n {
			row := old.Examples.Train.Rows[first+i]
			to := &r.Staying
			if gone[row] {
				to = &r.Forgotten
			}
			for k := range outputs {
				largest = max(largest, prior.At(i*outputs+k, k))
				x := &changedRow{Row: row, Output: k, Before: result.Float(was.At(i, k)), After: result.Float(is.At(i, k))}
				if *to == nil || x.size() > (*to).size() {
					*to = x
				}
			}
		}
		c.Show("changes", first+n, old.Examples.Train.Len())
		return ctx.Err()
	})
	c.Clear()
	if err != nil {
		return old.TrainNames().ExplainError(err)
	}
	// The kernel is that of the posterior's prior times a factor.
	r.PriorSD = result.Float(math.Sqrt(largest * after.PriorScale()))
	if r.Bound = r.Distance * r.PriorSD; problem.HasLogVariances(p.Task.Likelihood) {
		r.Bound = result.Undefined()
	}
	return c.EndPart(ctx, "predict")
}

// forgetMeanings say what each score is, its unit and its sign.
func forgetMeanings(p *problem.Problem) map[string]string {
	unit := unitOf(p)
	return map[string]string{
		"distance":                 "how far the posterior is at most from a converged fit without the rows, in prior standard deviations, no unit, not negative",
		"bound":                    fmt.Sprintf("the same for any output at a training row, in its unit: %s; not negative", unit),
		"largest_change":           fmt.Sprintf("output of the refit, before and after, in its unit: %s; after less before, by which the prediction changes, is positive where it rose", unit),
		"largest_change_forgotten": "the same at a row that was forgotten",
	}
}

// size is how far the mean moves.
func (x *changedRow) size() float64 { return math.Abs(float64(x.After - x.Before)) }

// text prints the proof.
func (r *forgetReport) text(out io.Writer) error {
	numbers := make([]int, len(r.Rows))
	for i, row := range r.Rows {
		numbers[i] = row.Row
	}
	return console.Text(out, &r.Fit, func(w *tabwriter.Writer) {
		fmt.Fprintf(w, "forgotten\t%s: %s\n", result.Some(len(r.Rows), "training row", "training rows"), result.List(numbers))
		for _, f := range []struct {
			name string
			file *forgetFile
		}{{"before", &r.Before}, {"after", &r.After}} {
			fmt.Fprintf(w, "%s\t%s, of %s\n", f.name, f.file.File, result.Some(f.file.Examples, "training row", "training rows"))
			if f.file.SHA256 != "" {
				fmt.Fprintf(w, "\tSHA-256 of the file %s\n", f.file.SHA256)
			}
			fmt.Fprintf(w, "\tof the inputs %s\n", f.file.Inputs)
		}
		if r.Bound.Finite() {
			fmt.Fprintf(w, "distance\tno output f at a training row is farther than %.2g, in the unit of f, from a fit without them that has converged\n", float64(r.Bound))
			fmt.Fprintf(w, "\t(%.2g prior standard deviations, of which the largest is %.4g)\n", float64(r.Distance), float64(r.PriorSD))
		}
		for _, x := range []struct {
			what string
			row  *changedRow
		}{{"of the rows left", r.Staying}, {"of those forgotten", r.Forgotten}} {
			if x.row != nil {
				fmt.Fprintf(w, "largest change\t%s: row %d, output %d, mean of f from %.4g to %.4g, %+.2g\n", x.what, x.row.Row, x.row.Output, float64(x.row.Before), float64(x.row.After), float64(x.row.After-x.row.Before))
			}
		}
		fmt.Fprintf(w, "\nRows, and the SHA-256 of their inputs with the label or targets:\n")
		for _, row := range r.Rows {
			fmt.Fprintf(w, "  %d %s\n", row.Row, row.InputsAndTarget)
		}
		fmt.Fprintf(w, "\nNot covered:\n")
		for _, text := range r.NotCovered {
			fmt.Fprintf(w, "- %s\n", text)
		}
	})
}
