package funcgp

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/par"
)

// mostTestRows is the largest number of test rows that a page's scores are of.
const mostTestRows = 10_000

// TestScores are the scores of the network alone on the first test rows; nil where there
// are none, or none with a label.
func (p *problem) TestScores(ctx context.Context) (*result.TestScores, error) {
	if p.Examples.TestPart().Len() == 0 {
		return nil, nil
	}
	rows, err := p.Examples.Test(0, nil, "")
	if err != nil || rows.Targets == nil || rows.Len() == 0 {
		return nil, nil // no row of these classes is labelled
	}
	if rows.Len() > mostTestRows {
		rows = rows.Slice(0, mostTestRows)
	}
	y, err := p.Targets(rows)
	if err != nil {
		return nil, nil // targets that the likelihood does not take are no scores
	}
	s := &result.TestScores{Rows: rows.Len(), RMSE: result.Undefined()}
	if s.Accuracy, s.NLL, err = p.Model.Score(ctx, p, rows, y); err != nil || hasClasses(p.Task.Likelihood) {
		return s, err
	}
	// The root mean square of the distances between targets and what the network alone expects.
	square, expected := 0.0, make([]float64, p.Model.Outputs)
	for t := range par.Tiles(rows.Len(), predictRows) {
		lo, hi := par.Bounds(t, rows.Len(), predictRows)
		x, err := p.Examples.Inputs(ctx, rows, lo, hi)
		if err != nil {
			return nil, err
		}
		f, err := p.Model.Net.Forward(ctx, x)
		if err != nil {
			return nil, explainError(rows.Slice(lo, hi), err)
		}
		for i := range hi - lo {
			p.Task.Likelihood.MeanTo(expected, f.RawRowView(i))
			for c, v := range y.RawRowView(lo + i) {
				square += (v - expected[c]) * (v - expected[c])
			}
		}
	}
	_, targets := y.Dims()
	s.RMSE = result.Float(math.Sqrt(square / float64(rows.Len()*targets)))
	return s, nil
}
