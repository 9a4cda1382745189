package serve

import (
	"bytes"
	"context"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/npy"
	"github.com/funcgp/funcgp/internal/picture"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// Bounds of several rows that are predicted at a time.
const (
	mostRows    = 1000
	mostNumbers = 1 << 20 // of their inputs and covariances
)

// mostRows is the number of rows that may be predicted at a time.
func (s *service) mostRows() int {
	c := s.problem.Model.Outputs
	return min(mostRows, max(1, mostNumbers/(problem.Elements(s.problem.Examples.Data.Shape)+c*c)))
}

// predictions answer /v1/predict of several rows.
type predictions struct {
	Schema      string              `json:"schema"`
	Classes     []string            `json:"classes,omitempty"` // as of one prediction
	Predictions []result.Prediction `json:"predictions"`       // in the order of the rows
}

// predictRows predicts several rows as Posterior.Predict does.
func (s *service) predictRows(ctx context.Context, r *request) (*predictions, error) {
	if npy.IsArchive(r.Rows) {
		return nil, refusef(422, "bad_rows", "rows: it is an archive of arrays; send the array of inputs alone")
	}
	d := problem.Elements(s.problem.Examples.Data.Shape)
	// An array may be one row of the shape of an input. The rows of a table have been counted.
	if a, err := npy.OpenRows(bytes.NewReader(r.Rows), int64(len(r.Rows))); err == nil && a.Len() > s.mostRows() && a.Len()*a.Dim() != d {
		return nil, refusef(422, "bad_rows", "rows: %d rows; send at most %d at a time", a.Len(), s.mostRows())
	}
	rows, _, err := s.readRows(ctx, r.Rows, picture.Auto, 8*int64(s.mostRows())*int64(d))
	if err != nil {
		return nil, err
	}
	r.scored = rows
	out := &predictions{Schema: "funcgp/serve-predictions/1", Classes: s.problem.Task.ClassNames()}
	err = s.each(ctx, rows, func(b *linearize.Batch, p *inference.Predictions) {
		for i := range b.Len() {
			out.Predictions = append(out.Predictions, s.posterior.Prediction(s.problem.Task, p, i))
		}
	})
	return out, err
}

// An npyFile is a .npy file.
type npyFile []byte

// npy is a row for each prediction: the probabilities of the classes, or of a regression the means and then the
// standard deviations of new observations.
func (p *predictions) npy() (npyFile, error) {
	var list []float64
	for _, one := range p.Predictions {
		for _, part := range [][]result.Float{one.Probability, one.ObservationMean, one.ObservationSD} {
			for _, v := range part {
				list = append(list, float64(v))
			}
		}
	}
	var b bytes.Buffer
	err := npy.Write(&b, list, len(p.Predictions), len(list)/len(p.Predictions))
	return b.Bytes(), err
}
