package funcgp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// A network is trained on rows of two digits, and its file says what a fit needs.
func ExampleOpenToTrain() {
	ctx := context.Background()
	d := funcgp.Data{Source: "digits:400,100", Classes: []string{"4", "9"}}
	s := must(funcgp.OpenToTrain(ctx, d, nil, &funcgp.Trainee{Name: "the network"}))
	defer s.Close()
	info := s.Info()
	net := must(s.InUnits(must(network.Sequential(info.InputShape, network.Flatten{}, network.Dense{Units: info.Outputs}))))
	x, y, loss, err := s.Examples(ctx, s.TrainingRows())
	check(err)
	trained, _, err := train.MAP(ctx, net, x, y, loss, &train.Options{Epochs: -1})
	check(err)
	accuracy, _, err := s.Score(ctx, trained, s.TestRows())
	check(err)
	fmt.Printf("%d rows, %d output, accuracy %.2f\n", info.Examples, info.Outputs, accuracy)
	fmt.Println(s.Metadata("")["funcgp.classes"], s.Metadata("")["funcgp.likelihood"])
	// Output:
	// 80 rows, 1 output, accuracy 0.90
	// 4,9 bernoulli
}

// toTrain is the training set of a network for a few digits.
func toTrain(t *testing.T, d funcgp.Data, o *funcgp.FitOptions, net funcgp.Trainee) *funcgp.TrainingSet {
	t.Helper()
	net.Name = "the network"
	s, err := funcgp.OpenToTrain(t.Context(), d, o, &net)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// An architecture without a width of its own has the outputs that suit the data and the likelihood.
func TestOutputsThatSuitData(t *testing.T) {
	digits, table := funcgp.Data{Source: "digits:60,20"}, funcgp.Data{Source: filepath.Join(t.TempDir(), "table.csv")}
	require.NoError(t, atomicfile.Write(table.Source, func(w io.Writer) error {
		_, err := fmt.Fprint(w, "a,b,y\n0,1,0.5\n1,0,7.5\n0.5,0.5,0\n1,1,3\n")
		return err
	}))
	several := funcgp.Data{Source: filepath.Join(t.TempDir(), "several.csv"), Target: "k,l"}
	require.NoError(t, atomicfile.Write(several.Source, func(w io.Writer) error {
		_, err := fmt.Fprint(w, "a,k,l\n0,1,1\n1,0,0\n0.5,1,0\n0.7,0,1\n")
		return err
	}))
	two := digits
	two.Classes = []string{"4", "9"}
	for _, x := range []struct {
		data       funcgp.Data
		likelihood string
		outputs    int
	}{{digits, "", 10}, {digits, "gaussian", 1}, {two, "", 1}, {two, "categorical", 2}, {table, "", 1}, {table, "heteroscedastic", 2}, {several, "", 2}, {several, "bernoulli", 2}, {several, "gaussian", 1}} {
		s, err := funcgp.OpenToTrain(t.Context(), x.data, &funcgp.FitOptions{Likelihood: x.likelihood}, &funcgp.Trainee{Name: "the network"})
		if x.data.Target != "" && x.likelihood == "gaussian" {
			require.Error(t, err, "one output is not for two targets")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, x.outputs, s.Info().Outputs, x.likelihood)
		s.Close()
	}
	require.Equal(t, 12, toTrain(t, digits, nil, funcgp.Trainee{Outputs: 12}).Info().Outputs, "two digits are in no row")
}

// A plan is asked before the inputs are read, and its error is the answer.
func TestTrainingPlan(t *testing.T) {
	refused := errors.New("too large")
	for _, coder := range []bool{false, true} {
		_, err := funcgp.OpenToTrain(t.Context(), funcgp.Data{Source: "digits:60,20", TrainCount: 30}, nil, &funcgp.Trainee{Name: "the network", Autoencoder: coder, Plan: func(shape []int, n int) error {
			require.Equal(t, []int{1, 28, 28}, shape)
			require.Equal(t, 30, n)
			return refused
		}})
		require.ErrorIs(t, err, refused)
	}
}

// The rows that say when to stop are none of those that are trained on, and it is an error where none is left.
func TestTrainingHeldOut(t *testing.T) {
	for _, coder := range []bool{false, true} {
		s := toTrain(t, funcgp.Data{Source: "digits:60,20", TrainCount: 50}, nil, funcgp.Trainee{Autoencoder: coder})
		held := testref.Must(s.HeldOut())(t)
		require.Equal(t, 10, held.Len())
		require.Equal(t, 50, held.Index(0))
		require.Equal(t, 20, s.TestRows().Len())
		require.ErrorContains(t, testref.Err(toTrain(t, funcgp.Data{Source: "digits:60,20"}, nil, funcgp.Trainee{Autoencoder: coder}).HeldOut()),
			"TrainingSet.HeldOut: all 60 training rows of digits (seed 0) were trained on, none is left to stop by; give Data.TrainCount 54")
	}
}

// The targets of an autoencoder are its inputs, under a Gaussian of its noise variance.
func TestAutoencoderExamples(t *testing.T) {
	s := toTrain(t, funcgp.Data{Source: "digits:60,20"}, &funcgp.FitOptions{NoiseVariance: new(0.25)}, funcgp.Trainee{Autoencoder: true})
	x, y, loss, err := s.Examples(t.Context(), s.TrainingRows())
	require.NoError(t, err)
	require.Same(t, x, y)
	require.Equal(t, testref.Must(glm.NewGaussian(0.25))(t), loss)
	require.Equal(t, 784, s.Info().Outputs)
	meta := s.Metadata("code")
	require.Equal(t, "code", meta["funcgp.code"])
	require.NotContains(t, meta, "funcgp.classes")
	require.NotContains(t, meta, "funcgp.command", "there is no command line")

	net := testref.Must(network.Sequential(s.Info().InputShape, network.Flatten{}, network.Dense{Units: 2}, network.Dense{Units: 784}))(t)
	path := filepath.Join(t.TempDir(), "coder.onnx")
	require.NoError(t, atomicfile.Write(path, net.WithMetadata(meta).WriteONNX))
	require.True(t, funcgp.IsAutoencoder(t.Context(), funcgp.Model{File: path}, funcgp.Limits{}))
	require.False(t, funcgp.IsAutoencoder(t.Context(), funcgp.Model{}, funcgp.Limits{}))
	open := testref.Must(funcgp.OpenAutoencoder(t.Context(), funcgp.Model{File: path}, funcgp.Data{Source: "digits:60,20"}, nil, ""))(t)
	defer open.Close()
	read, code := open.Network()
	require.Equal(t, "code", code)
	require.True(t, slices.Equal(net.Theta(), read.Theta()))
	require.EqualValues(t, 0.25, open.Info().NoiseVariance)
	model, data := open.Names()
	require.Equal(t, []string{path, "digits (seed 0)"}, []string{model, data})
}
