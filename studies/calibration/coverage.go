package calibration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// A coverageCase is a problem on which intervals or sets by jackknife+ are counted.
type coverageCase struct {
	name   string
	what   string
	splits int // training sets, each with a network of its own
	delta  float64
	wanted []float64
	// Networks are also trained without each of so many parts of the training rows, on
	// the first splits; 0 trains none.
	folds, foldSplits int
	open              func(ctx context.Context, o *options, split int) (*problem, error)
}

func coverageCases() []coverageCase {
	return []coverageCase{
		{"snelson-reference", "the reference's network and 150 points; its 1,000 other points outside the gap of the training inputs", 1, 0.63, []float64{.9}, 0, 0, openSnelson(false, false)},
		{"snelson-gap", "the same, points in the gap", 1, 0.63, []float64{.9}, 0, 0, openSnelson(false, true)},
		{"snelson", "150 random ones of these points, a network trained on them, and the others", 20, 0.63, []float64{.9}, 10, 10, openSnelson(true, false)},
		{"friedman", "500 draws, 10-50-50-1 tanh; 5,000 test draws", 20, 1, []float64{.9}, 10, 5, openFriedmanCoverage},
		{"thesis-cnn", "the reference's network and 3,000 digits 4 and 9; the 1,991 test digits", 1, 10, []float64{.9, .95, .99}, 0, 0, openThesis},
		{"mnist49", "1,000 random training digits 4 and 9, 784-32-1 tanh; the 1,991 test digits", 10, 10, []float64{.9, .95, .99}, 10, 2, openMNIST49(false)},
		{"mnist49-training", "the same networks; 1,991 other training digits", 10, 10, []float64{.9, .95, .99}, 0, 0, openMNIST49(true)},
	}
}

// openSnelson opens the points of the reference: its own training rows and network, or
// random ones of all points outside the gap that the training inputs leave, with a
// network to train. The test rows are the others, or those in the gap.
func openSnelson(draw, inGap bool) func(ctx context.Context, o *options, split int) (*problem, error) {
	return func(_ context.Context, o *options, split int) (*problem, error) {
		dir := filepath.Join(o.reference, "snelson")
		ref, err := readReference(filepath.Join(dir, "reference.safetensors"))
		if err != nil {
			return nil, err
		}
		lik, err := glm.NewGaussian(0.1)
		if err != nil {
			return nil, err
		}
		p := &problem{lik: lik, recipe: recipe{shape: network.Shape{1}, layers: mlp(network.Tanh, 25, 25, 25, 25, 25, 1), delta: 0.63, first: split,
			opt: train.Options{Epochs: 2000, Batch: 150, LearningRate: 5e-3, LBFGS: 1000}}}
		var x, y [2][]float64 // training and other points
		for k, names := range [][2]string{{"x_train", "y_train"}, {"x_heldout", "y_heldout"}} {
			xs, ys := ref.matrix(names[0]), ref.matrix(names[1])
			for i := range xs.RawMatrix().Rows {
				if gap := xs.At(i, 0) > 1.5 && xs.At(i, 0) < 2.4; k == 0 || gap == inGap {
					x[k], y[k] = append(x[k], xs.At(i, 0)), append(y[k], ys.At(i, 0))
				}
			}
		}
		n := len(x[0])
		xs, ys := slices.Concat(x[0], x[1]), slices.Concat(y[0], y[1])
		if draw {
			rng := rand.New(rand.NewPCG(uint64(split), 9))
			rng.Shuffle(len(xs), func(i, j int) { xs[i], xs[j], ys[i], ys[j] = xs[j], xs[i], ys[j], ys[i] })
		} else {
			p.recipe.file = filepath.Join(dir, "model.onnx")
		}
		column := func(v []float64) *mat.Dense { return mat.NewDense(len(v), 1, v) }
		p.train, p.test = part{column(xs[:n]), column(ys[:n])}, part{column(xs[n:]), column(ys[n:])}
		return p, nil
	}
}

func openFriedmanCoverage(_ context.Context, _ *options, split int) (*problem, error) {
	return friedman(split, 500, 75, 5000)
}

// openMNIST49 opens random training digits, and the test digits or others of the
// training digits.
func openMNIST49(others bool) func(ctx context.Context, o *options, split int) (*problem, error) {
	return func(ctx context.Context, o *options, split int) (*problem, error) {
		d, err := openImages(ctx, filepath.Join(o.data, "mnist"), []int{4, 9})
		if err != nil {
			return nil, err
		}
		rows := slices.Clone(d.train.Index)
		rng := rand.New(rand.NewPCG(uint64(split), 9))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		p := &problem{lik: glm.Bernoulli{}, recipe: recipe{shape: image, layers: mlp(network.Tanh, 32, 1), delta: 10, first: split,
			opt: train.Options{Epochs: 40, Batch: 64, LBFGS: 300}}, test: d.testRows(0)}
		const n = 1000
		slices.Sort(rows[:n])
		if p.train, err = d.rowsOf(rows[:n]); err != nil {
			return nil, err
		}
		if others {
			p.test, err = d.rowsOf(rows[n : n+p.test.len()])
		}
		return p, err
	}
}

// coverageResult counts the test rows of one training set whose target lies in its
// interval or set.
type coverageResult struct {
	Case       string         `json:"case"`
	What       string         `json:"what"`
	Split      int            `json:"split"`
	Without    string         `json:"without"`  // network or refit: whose mean, less a step that leaves out a row; folds: networks trained without it
	Examples   int            `json:"examples"` // N
	Precision  result.Float   `json:"precision"`
	Gradient   result.Float   `json:"gradient_norm"`
	Wanted     result.Float   `json:"wanted"`
	Test       int            `json:"test"`
	Held       int            `json:"held"`
	Share      result.Float   `json:"share"`
	Band       []result.Float `json:"band"`      // of the share, 95 % [Clopper and Pearson]
	MeanSize   result.Float   `json:"mean_size"` // width of intervals or number of classes
	Empty      int            `json:"empty"`
	Unknown    int            `json:"unknown"` // training rows without a prediction of their own
	FitSeconds result.Float   `json:"fit_seconds"`
	Seconds    result.Float   `json:"seconds"` // of the predictions without each row
}

// path is where the cache keeps what belongs to a split of a case.
func (k *coverageCase) path(o *options, name string, split int) string {
	return filepath.Join(o.cache, "coverage", fmt.Sprintf("%s-%d", name, split))
}

// measureCoverage measures every case that was asked for and is not in the cache
// yet, and writes the results of all.
func measureCoverage(ctx context.Context, o *options) error {
	if err := os.MkdirAll(filepath.Join(o.cache, "coverage"), 0o755); err != nil {
		return err
	}
	var all []coverageResult
	var failed error
	for _, k := range coverageCases() {
		for split := range k.splits {
			file := k.path(o, k.name, split) + ".json"
			rows, err := readCoverage(file)
			if err == nil && rows == nil && o.only.MatchString(k.name) {
				if rows, err = k.measure(ctx, o, split); err == nil {
					err = writeJSON(file, rows)
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("coverage of %s %d: %w", k.name, split, err))
				fmt.Fprintln(os.Stderr, failed)
			}
			all = append(all, rows...)
		}
	}
	if o.table != "" {
		failed = errors.Join(failed, os.WriteFile(o.table, []byte(coverageTable(all)), 0o644))
	}
	return errors.Join(failed, writeJSON(o.coverage, all))
}

// readCoverage returns the results in a file, nil where there is none.
func readCoverage(file string) ([]coverageResult, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []coverageResult
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return rows, nil
}

// coverageTable is a table in Markdown, one line a case, posterior and coverage.
func coverageTable(all []coverageResult) string {
	type key struct {
		name, without string
		wanted        result.Float
	}
	var keys []key
	groups := map[key][]coverageResult{}
	for _, r := range all {
		k := key{r.Case, r.Without, r.Wanted}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], r)
	}
	var b strings.Builder
	b.WriteString("| case | without a row | N | training sets | wanted | measured | ± between sets | band of the first | size | empty |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range keys {
		g := groups[k]
		var share, square, size, empty float64
		n := float64(len(g))
		for _, r := range g {
			share += float64(r.Share) / n
			size += float64(r.MeanSize) / n
			empty += float64(r.Empty) / float64(r.Test) / n
		}
		for _, r := range g {
			square += (float64(r.Share) - share) * (float64(r.Share) - share)
		}
		between := "–"
		if n > 1 {
			between = fmt.Sprintf("%.4f", math.Sqrt(square/(n-1)/n))
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %g | %.4f | %s | %.4f to %.4f | %.3f | %.3f |\n", k.name, k.without, g[0].Examples, len(g), float64(k.wanted), share, between, g[0].Band[0], g[0].Band[1], size, empty)
	}
	return b.String()
}
