package funcgp

import (
	"context"

	"github.com/funcgp/funcgp/explain/result"
)

// OutputNames are the names of the outputs where there is a target for each, or a label; nil where there are none.
func (p *Posterior) OutputNames() []string { return p.problem.OutputNames() }

// Quantity names an output of a regression, such as "log rate"; "" for classes.
func (p *Posterior) Quantity() string { return p.problem.Task.Quantity(p.problem.Examples.Data.Target) }

// GreyLevels tells whether inputs are pictures of grey levels, which Rows takes from 0 to 255.
func (p *Posterior) GreyLevels() bool { return p.problem.Examples.Data.GreyLevels() }

// Dark tells whether pictures are light on dark. It is false for tables.
func (p *Posterior) Dark(ctx context.Context) (bool, error) {
	d := p.problem.Examples.Data
	if !d.Images() {
		return false, nil
	}
	dark, err := d.Dark(ctx)
	return dark, p.named(err)
}

// Spread are the standard deviations of the features over the training rows, in the units of the data; nil for pictures.
func (p *Posterior) Spread(ctx context.Context) ([]float64, error) {
	v, err := p.problem.Spread(ctx)
	return v, p.named(err)
}

// Shown shows row i: its pixels, or its features as they are in the file.
func (r *Rows) Shown(ctx context.Context, i int) (result.Picture, error) {
	shown, err := r.own.problem.Examples.Picture(ctx, r.asked, i)
	return shown, r.own.named(err)
}

// Scored describes the row for which a prediction was computed, and the margin on which the prediction's
// decision depends.
func (r *Rows) Scored(ctx context.Context, i int, of *result.Prediction) (*result.Scored, error) {
	x, err := r.own.problem.Examples.Inputs(ctx, r.asked, i, i+1)
	if err != nil {
		return nil, r.own.named(err)
	}
	return result.NewScored(x.RawRowView(0), of), nil
}
