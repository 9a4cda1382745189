package report

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// tablePage explains a regression on feature values: no image and no class.
func tablePage(t testing.TB) *Page {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 1))
	const n, p = 60, 20
	d := testkit.NewDual(rng, n, 1, p)
	test := testkit.RandomBatch(rng, 1, 1, p)
	names := []string{"alcohol", "malic acid", "ash", "alkalinity", "magnesium", "phenols", "flavanoids", "hue", "proline"}
	var labels []float64
	features := make([][]float64, n)
	for i := range features {
		labels = append(labels, math.Round(100*rng.NormFloat64())/100)
		for range names {
			features[i] = append(features[i], 10*rng.NormFloat64())
		}
	}
	r := result.Rows{Label: labels}
	e := testref.Must(explain.New(d, d, &explain.Options{Sides: true, Similar: 6, Groups: r.Groups(), Curve: true}))(t)
	rows := testref.Must(e.Explain(t.Context(), test))(t)
	spread := make([]float64, len(names))
	for i := range spread {
		spread[i] = 10
	}
	mean := rows[0][0].PriorMean + rows[0][0].Sum
	return &Page{
		Report: &result.Report{
			Input:      result.Input{Split: "test", Index: 5, Label: 1.25},
			Prediction: result.Prediction{Class: result.Undefined(), Mean: result.Floats([]float64{mean}), Covariance: [][]result.Float{{0.04}}},
			Outputs:    []result.Output{r.Output(rows[0][0])},
			Fit: result.Fit{Examples: n, Outputs: 1, Parameters: p, PriorPrecision: result.Undefined(), GradientNorm: 3,
				Warnings: linearize.Warnings{errors.New("the kernel matrix was factored with jitter 1e-10"), errors.New("θ* is no mode: gradient norm 3")}},
		},
		Test:   result.Picture{Names: names, Values: features[0]},
		Train:  func(row result.Index) result.Picture { return result.Picture{Names: names, Values: features[row]} },
		Origin: Origin{Data: "wine.csv"}, Spread: spread,
	}
}

var (
	pagesOnce sync.Once
	onePages  map[string]*Page
)

// pages are one of each kind, made once and not to be changed.
func pages(t testing.TB) map[string]*Page {
	pagesOnce.Do(func() { onePages = makePages(t) })
	return onePages
}

func makePages(t testing.TB) map[string]*Page {
	contrast := &explain.Options{Sides: true, Similar: 8, Targets: []explain.Target{explain.Single(0), explain.Single(1), explain.Single(2), explain.Single(3), explain.Contrast(1, 3)}}
	unlabelled := newDemo(4, 40, 9, 4, 9).page(t, math.NaN(), &explain.Options{Top: 1})
	unlabelled.Report.Input = result.Input{Split: "file", Index: -1, Label: result.Undefined(), File: "mine.png"}
	bare := newDemo(5, 30, 4, 4, 9).page(t, 4, &explain.Options{Top: 30})
	bare.Train, bare.Test = nil, result.Picture{}
	return map[string]*Page{
		"right":      newDemo(1, 200, 9, 4, 9).page(t, 9, &explain.Options{Sides: true, Similar: 8}),
		"wrong":      newDemo(2, 200, 4, 4, 9).page(t, 9, &explain.Options{Sides: true, Similar: 8, Top: 12}),
		"many":       newDemo(3, 100, 3, 0, 3, 5, 8).page(t, 3, contrast),
		"table":      tablePage(t),
		"unlabelled": unlabelled,
		"bare":       bare,
	}
}
