// Package trained has tables with networks as users train them: small networks of ReLUs, with and
// without BatchNormalization, trained by Adam on the tables of the reference and of UCI.
package trained

import (
	"context"
	"flag"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// Flags are what the studies of tables have in common.
type Flags struct {
	Cache, Records, Shared, Only string
}

// On adds the flags to a set.
func (s *Flags) On(f *flag.FlagSet) {
	f.StringVar(&s.Cache, "cache", "cache", "`DIR` of the results of steps")
	f.StringVar(&s.Records, "out", "records", "`DIR` of the record")
	f.StringVar(&s.Shared, "shared", "../../shared", "`DIR` of the tables and networks")
	f.StringVar(&s.Only, "only", "", "`NAMES` of tables, with commas between them (default all)")
}

// Chosen are the tables that --only names, or all.
func (s *Flags) Chosen(tables []Table) []Table {
	if s.Only == "" {
		return tables
	}
	names := strings.Split(s.Only, ",")
	return slices.DeleteFunc(slices.Clone(tables), func(t Table) bool { return !slices.Contains(names, t.Name) })
}

// A Table is a table with the network that is trained on it.
type Table struct {
	Name       string
	File       string   // below the shared directory, with %s for train or test; without, all rows are for training
	Networks   []string // trained elsewhere on these rows, below the shared directory
	Likelihood glm.Likelihood
	Outputs    int
	Hidden     []int // units of the hidden layers, of ReLU
	Norm       bool  // BatchNormalization before each ReLU
	AsIs       bool  // inputs are as they are and not standardized by the training rows
	Epochs     int
	Lambda     float64 // weight decay of the mean loss, δ = N·λ
}

// Rows are those of a table, as its network takes them: inputs, and targets of a regression, standardized
// by the training rows.
type Rows struct{ X, Y, TestX, TestY *mat.Dense }

// squares is the likelihood of a mean of squares on standardized targets. Terms and ranks do not depend on
// its variance but through δσ².
func squares() *glm.Gaussian {
	g, err := glm.NewGaussian(1)
	if err != nil {
		panic("trained: " + err.Error()) // of a constant
	}
	return g
}

// Reference are the tables with networks in the reference.
var Reference = []Table{
	{Name: "boston", File: "reference/defaults/boston0.%s.csv", Networks: []string{"reference/defaults/boston0.onnx"}, Likelihood: squares(), Outputs: 1, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "boston-bn", File: "reference/defaults/boston_bn.%s.csv", Networks: []string{"reference/defaults/boston_bn.onnx", "reference/defaults/boston_bn_folded.onnx"}, Likelihood: squares(), Outputs: 1, Hidden: []int{50, 50}, Norm: true, Epochs: 200},
	{Name: "servo", File: "reference/defaults/servo0.%s.csv", Networks: []string{"reference/defaults/servo0.onnx"}, Likelihood: squares(), Outputs: 1, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "diabetes", File: "reference/match/diabetes-adamw-%s.csv", Networks: []string{"reference/match/diabetes-adam1e-4.onnx", "reference/match/diabetes-adamw.onnx"}, Likelihood: squares(), Outputs: 1, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "hetero", File: "reference/match/hetero-adamw-%s.csv", Networks: []string{"reference/match/hetero-adam1e-4.onnx", "reference/match/hetero-adamw.onnx"}, Likelihood: squares(), Outputs: 1, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "counts", File: "reference/defaults/phd0.%s.csv", Networks: []string{"reference/defaults/phd0.onnx"}, Likelihood: glm.Poisson{}, Outputs: 1, Hidden: []int{50, 50}, Epochs: 100, Lambda: 1e-4},
	{Name: "sonar", File: "reference/defaults/sonar0.%s.csv", Networks: []string{"reference/defaults/sonar0.onnx"}, Likelihood: glm.Categorical{}, Outputs: 2, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "sonar-bn", File: "reference/defaults/sonar_bn.%s.csv", Networks: []string{"reference/defaults/sonar_bn.onnx", "reference/defaults/sonar_bn_folded.onnx"}, Likelihood: glm.Categorical{}, Outputs: 2, Hidden: []int{50, 50}, Norm: true, Epochs: 200},
	{Name: "pima", File: "reference/defaults/pima_bn.%s.csv", Likelihood: glm.Bernoulli{}, Outputs: 1, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "pima-bn", File: "reference/defaults/pima_bn.%s.csv", Networks: []string{"reference/defaults/pima_bn.onnx", "reference/defaults/pima_bn_folded.onnx"}, Likelihood: glm.Bernoulli{}, Outputs: 1, Hidden: []int{50, 50}, Norm: true, Epochs: 200},
	{Name: "vehicle", File: "reference/defaults/vehicle0.%s.csv", Likelihood: glm.Categorical{}, Outputs: 4, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "vehicle-bn", File: "reference/defaults/vehicle0.%s.csv", Networks: []string{"reference/defaults/vehicle0.onnx"}, Likelihood: glm.Categorical{}, Outputs: 4, Hidden: []int{50, 50}, Norm: true, Epochs: 200},
	{Name: "wine", File: "reference/match/wine-adamw-%s.csv", Networks: []string{"reference/match/wine-adam1e-4.onnx", "reference/match/wine-adamw.onnx"}, Likelihood: glm.Categorical{}, Outputs: 3, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "breast-cancer", File: "reference/match/breast_cancer-adamw-%s.csv", Networks: []string{"reference/match/breast_cancer-adam1e-4.onnx", "reference/match/breast_cancer-adamw.onnx"}, Likelihood: glm.Categorical{}, Outputs: 2, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "overlap5", File: "reference/match/overlap5-adamw-%s.csv", Networks: []string{"reference/match/overlap5-adamw.onnx"}, Likelihood: glm.Categorical{}, Outputs: 5, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "digits", File: "reference/match/digits-adam1e-4-%s.csv", Networks: []string{"reference/match/digits-adam1e-4.onnx"}, Likelihood: glm.Categorical{}, Outputs: 10, Hidden: []int{32}, AsIs: true, Epochs: 200, Lambda: 1e-4},
}

// UCI are tables of classes without networks.
var UCI = []Table{
	{Name: "australian", File: "data/uci/australian.csv", Likelihood: glm.Categorical{}, Outputs: 2, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "banana", File: "data/uci/banana.csv", Likelihood: glm.Categorical{}, Outputs: 2, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "glass", File: "data/uci/glass.csv", Likelihood: glm.Categorical{}, Outputs: 6, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
	{Name: "ionosphere", File: "data/uci/ionosphere.csv", Likelihood: glm.Categorical{}, Outputs: 2, Hidden: []int{50, 50}, Epochs: 200, Lambda: 1e-4},
}

// Open reads the rows; dir is the shared directory.
func (t *Table) Open(ctx context.Context, dir string) (*Rows, error) {
	file := func(part string) string { return filepath.Join(dir, strings.Replace(t.File, "%s", part, 1)) }
	o := &dataset.OpenOptions{}
	if strings.Contains(t.File, "%s") {
		o.TestFile = file("test")
	}
	d, err := dataset.Open(ctx, file("train"), o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	r := &Rows{}
	if r.X, r.Y, err = matrices(d.Train); err == nil && o.TestFile != "" {
		r.TestX, r.TestY, err = matrices(d.Test)
	}
	if err != nil {
		return nil, err
	}
	if !t.AsIs {
		if err := standardize(r.X, r.TestX); err != nil {
			return nil, err
		}
	}
	if _, ok := t.Likelihood.(*glm.Gaussian); ok {
		return r, standardize(r.Y, r.TestY)
	}
	return r, nil
}

// matrices are the inputs and targets of all rows.
func matrices(s *dataset.Rows) (x, y *mat.Dense, err error) {
	all, err := s.Select(nil, 0)
	if err != nil {
		return nil, nil, err
	}
	return mat.DenseCopyOf(all.Matrix()), mat.NewDense(all.Len(), 1, all.Targets), nil
}

// Match is the precision of the match of a network (E21), of a regression δσ².
func Match(ctx context.Context, net *network.Network, x, y *mat.Dense, lik glm.Likelihood) (float64, error) {
	b, err := net.Linearize(ctx, x)
	if err != nil {
		return 0, err
	}
	kernel := func(factor float64) (ntk.Kernel, error) {
		prior, err := ntk.NewIsotropic(factor, nil)
		return ntk.New(prior, net.Theta()), err
	}
	start, err := kernel(1)
	if err != nil {
		return 0, err
	}
	post, err := gp.Refit(ctx, start, b, gp.NewTargets(y, lik), nil)
	if err != nil {
		return 0, err
	}
	best := 0.
	if _, ok := lik.(*glm.Gaussian); ok {
		// log p of every target at its own value
		for i := range b.Len() {
			best += lik.LogProb(y.RawRowView(i), y.RawRowView(i))
		}
	}
	_, m, err := post.Match(ctx, kernel, gp.NewTargets(y, lik), best, true)
	if err != nil {
		return 0, err
	}
	return m.Factor, nil
}

// standardize scales both by the training rows.
func standardize(of, also *mat.Dense) error {
	s, err := dataset.NewScaling(of)
	if err != nil {
		return err
	}
	s.Apply(of)
	if also != nil {
		s.Apply(also)
	}
	return nil
}

// Retraining is how the network is trained on n rows of the table: Adam with steps of .001 on minibatches of
// 32. Weight decay is that of a mean loss, so that the precision grows with n.
func (t *Table) Retraining(r *Rows, n int, dir string) (*evaluate.Retraining, error) {
	_, d := r.X.Dims()
	e := &evaluate.Retraining{X: r.X, Y: r.Y, Test: r.TestX, Loss: t.Likelihood, Dir: dir, AtOnce: 1,
		Network: func(seed uint64) (*network.Network, error) {
			var layers []network.Layer
			for _, units := range t.Hidden {
				layers = append(layers, network.Dense{Units: units})
				if t.Norm {
					layers = append(layers, network.BatchNorm{})
				}
				layers = append(layers, network.ReLU)
			}
			return network.Seeded(seed, network.Shape{d}, append(layers, network.Dense{Units: t.Outputs})...)
		}}
	net, err := e.Network(0)
	if err != nil {
		return nil, err
	}
	_, _, params := net.Dims()
	precision := make([]float64, params)
	for i := range precision {
		precision[i] = t.Lambda * float64(n)
	}
	e.Options = train.Options{Precision: precision, Optimizer: train.Adam{}, Schedule: train.Constant{}, LearningRate: 1e-3, Batch: 32, Epochs: t.Epochs, LBFGS: -1}
	return e, nil
}
