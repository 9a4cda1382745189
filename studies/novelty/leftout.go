package novelty

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/trained"
)

// The most training rows of a network that does not know a class, and the most of them times its outputs.
const (
	leftOutRows = 600
	leftOutSize = 2400
)

// lessTables are the tables of which these classes are left out. Those that are given have their files in the directory of the flag
// tables, since neither the repository nor the reference has them. Rows of further classes than Outputs are not used.
var lessTables = []struct {
	trained.Table
	leave []int
	given bool
}{
	{trained.Table{Name: "vehicle", File: "reference/defaults/vehicle0.%s.csv", Outputs: 4, Lambda: 1e-4}, []int{0, 1, 2, 3}, false},
	{trained.Table{Name: "vehicle-bn", File: "reference/defaults/vehicle0.%s.csv", Outputs: 4, Norm: true}, []int{0, 1, 2, 3}, false},
	{trained.Table{Name: "satellite", File: "data/uci/satellite.csv", Outputs: 6, Lambda: 1e-4}, []int{0, 1, 2, 3, 4, 5}, false},
	{trained.Table{Name: "satellite-bn", File: "data/uci/satellite.csv", Outputs: 6, Norm: true}, []int{0, 1, 2, 3, 4, 5}, false},
	{trained.Table{Name: "glass", File: "data/uci/glass.csv", Outputs: 6, Lambda: 1e-4}, []int{0, 1, 5}, false},
	{trained.Table{Name: "wine", File: "reference/match/wine-adamw-%s.csv", Outputs: 3, Lambda: 1e-4}, []int{0, 1, 2}, false},
	{trained.Table{Name: "digits", File: "reference/match/digits-adam1e-4-%s.csv", Outputs: 10, AsIs: true, Lambda: 1e-4}, []int{3, 5, 8}, false},
	{trained.Table{Name: "vowel", File: "vowel.csv", Outputs: 11, Lambda: 1e-4}, []int{1, 4, 7}, true},
	{trained.Table{Name: "hpc", File: "hpc.csv", Outputs: 4, Lambda: 1e-4}, []int{2, 3}, true},
	{trained.Table{Name: "letter", File: "letter.csv", Outputs: 8, Lambda: 1e-4}, []int{1, 3, 6}, true},
}

// lessClasses are the makers of problems whose networks do not know a class, of tables that are given too or without them.
func lessClasses(given bool) []maker {
	var list []maker
	for _, t := range lessTables {
		if t.given && !given {
			continue
		}
		t.Likelihood, t.Hidden, t.Epochs = glm.Categorical{}, []int{50, 50}, 200
		for _, class := range t.leave {
			list = append(list, maker{fmt.Sprintf("%s less %d", t.Name, class), 0, lessGroup, func(ctx context.Context, s source) (*problem, error) {
				dir := s.shared
				if t.given {
					dir = s.tables
				}
				r, err := t.Open(ctx, dir)
				if err != nil {
					return nil, err
				}
				return less(ctx, t.Table, r, class)
			}})
		}
	}
	return list
}

// less is a network trained on rows of the other classes of a table, other rows of them for a test, and the rows of the class. Where
// the table has no test rows, three tenths are.
func less(ctx context.Context, t trained.Table, r *trained.Rows, class int) (*problem, error) {
	n, _ := r.X.Dims()
	x, y := r.X, r.Y
	order := rand.New(rand.NewPCG(rowSeed, 2)).Perm(n)
	rows, tests := order[:n*7/10], order[n*7/10:]
	if r.TestX != nil {
		x, y = new(mat.Dense), new(mat.Dense)
		x.Stack(r.X, r.TestX)
		y.Stack(r.Y, r.TestY)
		rows, tests = order, nil
		for i := range x.RawMatrix().Rows - n {
			tests = append(tests, n+i)
		}
	}
	of := func(rows []int, most int, want func(label int) bool) *mat.Dense {
		rows = slices.DeleteFunc(slices.Clone(rows), func(i int) bool { return !want(int(y.At(i, 0))) })
		both := mat.NewDense(min(len(rows), most), x.RawMatrix().Cols+1, nil)
		for i := range both.RawMatrix().Rows {
			both.SetRow(i, append(slices.Clone(x.RawRowView(rows[i])), y.At(rows[i], 0)))
		}
		return both
	}
	outputs := t.Outputs
	known := func(label int) bool { return label != class && label < outputs }
	t.Outputs--
	train, test := of(rows, min(leftOutRows, leftOutSize/t.Outputs), known), of(tests, mostOf, known)
	left := of(slices.Concat(rows, tests), mostOf, func(label int) bool { return label == class })
	inputs := func(m *mat.Dense) *mat.Dense {
		n, d := m.Dims()
		return mat.DenseCopyOf(m.Slice(0, n, 0, d-1))
	}
	labels := mat.Col(nil, x.RawMatrix().Cols, train)
	for i, l := range labels {
		if int(l) > class {
			labels[i]--
		}
	}
	p := &problem{lik: t.Likelihood, precision: 1, train: inputs(train), y: mat.NewDense(len(labels), 1, labels), test: inputs(test)}
	rest := inputs(left)
	if !t.AsIs {
		scaling, err := dataset.NewScaling(p.train)
		if err != nil {
			return nil, err
		}
		for _, m := range []*mat.Dense{p.train, p.test, rest} {
			scaling.Apply(m)
		}
	}
	training, err := t.Retraining(&trained.Rows{X: p.train, Y: p.y}, len(labels), "")
	if err != nil {
		return nil, err
	}
	if p.net, err = training.Train(ctx, evaluate.Run{}); err != nil {
		return nil, err
	}
	p.others = append(drawnFrom(p.train, p.test), other{"class left out", rest})
	return p, nil
}
