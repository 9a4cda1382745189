package serve

import (
	"bytes"
	"context"
	"slices"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/npy"
)

// Bounds on the rows of one request for predictions.
const (
	mostRows    = 1000
	mostNumbers = 1 << 20 // numbers of their inputs and covariances
)

// mostRows is the largest number of rows that a request may have predicted.
func (s *service) mostRows() int {
	c := s.info.Outputs
	return min(mostRows, max(1, mostNumbers/(s.elements()+c*c)))
}

// predictions is the answer of /v1/predict for several rows.
type predictions struct {
	Schema      string              `json:"schema"`
	Classes     []string            `json:"classes,omitempty"` // as in prediction
	Labels      []string            `json:"labels,omitempty"`  // as in prediction
	Predictions []funcgp.Prediction `json:"predictions"`       // in the order of the rows
}

// predictRows predicts several rows as Posterior.Predict does.
func (s *service) predictRows(ctx context.Context, r *request) (*predictions, error) {
	d := s.elements()
	// An array may also be a single row in the shape of an input. The number of rows in JSON has been checked
	// already.
	if a, err := npy.OpenRows(bytes.NewReader(r.Array), int64(len(r.Array))); err == nil && a.Len() > s.mostRows() && a.Len()*a.Dim() != d {
		return nil, refusef(unprocessable, "bad_rows", "{rows}: %d rows; send at most %d at a time", a.Len(), s.mostRows())
	}
	rows, err := s.several(ctx, r, 8*int64(s.mostRows())*int64(d))
	if err != nil {
		return nil, badInput("rows", err)
	}
	r.scored = rows
	list, err := s.predictions(ctx, r, rows)
	return &predictions{Schema: "funcgp/serve-predictions/1", Classes: s.front.Classes(), Labels: s.front.Labels(), Predictions: list}, err
}

// An npyFile is a .npy file.
type npyFile []byte

// npy returns a .npy file with one row for each prediction: the probabilities of the classes, or for a
// regression the means and then the standard deviations of new observations.
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

// table returns a structured .npy file with one row for each prediction, whose fields are named as the members of its
// JSON. A value that the JSON omits or gives as null is NaN; a field that no prediction has is left out. A set of
// classes is padded with NaN.
func (p *predictions) table() (npyFile, error) {
	var fields []npy.Field
	first := &p.Predictions[0]
	column := func(name string, of func(x *result.Prediction) []result.Float, shape ...int) npy.Field {
		f := npy.Field{Name: name, Shape: shape}
		for i := range p.Predictions {
			for _, v := range of(&p.Predictions[i]) {
				f.Values = append(f.Values, float64(v))
			}
		}
		return f
	}
	add := func(name string, of func(x *result.Prediction) []result.Float) {
		if n := len(of(first)); n > 0 {
			fields = append(fields, column(name, of, n))
		}
	}
	fields = append(fields,
		column("class", func(x *result.Prediction) []result.Float { return []result.Float{x.Class} }),
		column("network_class", func(x *result.Prediction) []result.Float {
			if x.NetworkClass == nil {
				return []result.Float{result.Undefined()}
			}
			return []result.Float{*x.NetworkClass}
		}))
	add("probability", func(x *result.Prediction) []result.Float { return x.Probability })
	add("probability_sd", func(x *result.Prediction) []result.Float { return x.ProbabilitySD })
	add("map_probability", func(x *result.Prediction) []result.Float { return x.MAPProbability })
	add("mean", func(x *result.Prediction) []result.Float { return x.Mean })
	c := len(first.Covariance)
	fields = append(fields, column("covariance", func(x *result.Prediction) []result.Float { return slices.Concat(x.Covariance...) }, c, c))
	add("observation_mean", func(x *result.Prediction) []result.Float { return x.ObservationMean })
	add("observation_sd", func(x *result.Prediction) []result.Float { return x.ObservationSD })
	add("function_sd", func(x *result.Prediction) []result.Float { return x.FunctionSD })
	nested := func(name string, parts []string, of func(x *result.Prediction) []result.Float) {
		f := npy.Field{Name: name}
		for k, part := range parts {
			f.Fields = append(f.Fields, column(part, func(x *result.Prediction) []result.Float { return of(x)[k : k+1] }))
		}
		fields = append(fields, f)
	}
	if first.Calibration != nil {
		nested("calibration", []string{"scale", "temperature", "noise_scale"}, func(x *result.Prediction) []result.Float {
			return []result.Float{x.Calibration.Scale, x.Calibration.Temperature, x.Calibration.NoiseScale}
		})
		if shift := len(first.Calibration.Shift); shift > 0 {
			at := &fields[len(fields)-1]
			at.Fields = append(at.Fields, column("shift", func(x *result.Prediction) []result.Float { return x.Calibration.Shift }, shift))
		}
	}
	if first.Novelty != nil {
		nested("novelty", []string{"score", "rank", "entropy", "mutual_information"}, func(x *result.Prediction) []result.Float {
			return []result.Float{x.Novelty.Score, x.Novelty.Rank, x.Novelty.Entropy, x.Novelty.MutualInformation}
		})
	}
	add("interval", func(x *result.Prediction) []result.Float { return x.Interval })
	if first.Set != nil {
		add("set", func(x *result.Prediction) []result.Float {
			all := slices.Clone(x.Set)
			for len(all) < len(x.Probability) {
				all = append(all, result.Undefined())
			}
			return all
		})
	}
	var b bytes.Buffer
	err := npy.WriteTable(&b, len(p.Predictions), fields)
	return b.Bytes(), err
}
