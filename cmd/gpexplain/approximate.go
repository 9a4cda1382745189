package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"text/tabwriter"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
)

// cgTolerance is what conjugate gradients may differ by, relative to the
// largest entry.
const cgTolerance = 1e-6

// approximate validates a posterior that is not that of a Cholesky factor.
func (e *validateFlags) approximate(ctx context.Context, p *posterior, test *dataset.Subset) error {
	tile := func(lo, hi int) (*linearize.Batch, error) {
		x, err := p.net.Linearize(ctx, p.inputsAt(test, lo, hi))
		return x, rowsOf(test, lo, hi).fault(err)
	}
	table, err := closure(ctx, p.conditioned, "", e.tolerance, p, test.Len(), tile)
	if err != nil {
		return err
	}
	if p.method == "cg" {
		x, err := tile(0, test.Len())
		if err != nil {
			return err
		}
		rows, err := p.againstWeights(ctx, x)
		if err != nil {
			return err
		}
		table = append(rows, table...)
	}
	p.progress.clear()
	c := &weightspace.Comparison{Rows: table}
	if err := printApproximation(p, c); err != nil {
		return err
	}
	if !c.OK() {
		return fmt.Errorf("the posterior differs by more than the tolerance in the rows marked above")
	}
	return nil
}

// againstWeights compares mean, covariance and log determinant with those of
// weight space.
func (p *posterior) againstWeights(ctx context.Context, x *linearize.Batch) ([]weightspace.ComparisonRow, error) {
	w, err := weightspace.Fit(ctx, p.batch, p.Sites(), p.prior, p.theta, &weightspace.Options{Mean: p.mean, MaxMemory: p.bytes, Progress: p.progress.show})
	if err != nil {
		return nil, err
	}
	var mean, cov, wMean, wCov mat.Dense
	if err := p.PredictTo(ctx, &mean, &cov, x); err != nil {
		return nil, err
	}
	if err := w.PredictTo(ctx, &wMean, &wCov, x); err != nil {
		return nil, err
	}
	logDet := weightspace.ComparisonRow{Quantity: "log det (stochastic)", WeightSpace: w.EvidenceLinearGaussian().LogDet, FunctionSpace: p.evidence.LogDet}
	size := math.Max(1, math.Abs(logDet.WeightSpace))
	// Twice the standard error of the evidence is that of log det.
	logDet.Difference, logDet.Tolerance = math.Abs(logDet.WeightSpace-logDet.FunctionSpace)/size, 5*2*p.evidenceSE/size+cgTolerance
	logDet.OK = logDet.Difference <= logDet.Tolerance
	return []weightspace.ComparisonRow{differenceRow("mean", &wMean, &mean), differenceRow("covariance", &wCov, &cov), logDet}, nil
}

// differenceRow compares two matrices, relative to the largest entry.
func differenceRow(name string, weight, function *mat.Dense) weightspace.ComparisonRow {
	r := weightspace.ComparisonRow{Quantity: name, Tolerance: cgTolerance}
	scale, n := 0.0, weight.RawMatrix().Rows
	for i := range n {
		for j, v := range weight.RawRowView(i) {
			scale = math.Max(scale, math.Abs(v))
			widen(&r, v, function.At(i, j))
		}
	}
	settle(&r, scale)
	return r
}

// printApproximation prints the table and the error report.
func printApproximation(p *posterior, c *weightspace.Comparison) error {
	if p.json {
		return json.NewEncoder(p.out).Encode(struct {
			comparisonJSON
			Fit report.Fit `json:"fit"`
		}{comparisonOf(p.session, c), p.report()})
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	if f := p.report(); f.Approximation != nil {
		approximationText(w, &f, f.Approximation)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return printComparison(p.session, c)
}
