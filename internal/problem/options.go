package problem

import (
	"context"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
)

// Options say in a program what Flags say on a command line. The zero value is the built-in network
// and digits.
type Options struct {
	Model                           string           // an ONNX file; "" is the built-in network
	Network                         *network.Network // in place of Model; nil for none
	Rows                            *dataset.Data    // in place of Data; nil for none
	Freeze, Learn                   []string
	Data                            string // as --data; "" is digits
	TestData, ValidData, Target, ID string
	Classes, ClassNames             []string // in the order of the outputs
	TrainCount                      int      // the first kept rows; 0 for all
	TrainRows                       string   // a file of row numbers; "" for all
	Likelihood                      string
	Precision, WeightDecay, Noise   *float64
	Standardize                     string // auto, yes or no; "" is auto
	InMemory                        bool
	Seed                            uint64
	MaxMemory                       int64
}

// Flags returns the flags that say the same. An error is a *job.UsageError.
func (o *Options) Flags() (*Flags, error) {
	given := map[string]bool{"model": o.Model != "" || o.Network != nil, "data": o.Data != "" || o.Rows != nil, "test-data": o.TestData != "", "valid-data": o.ValidData != "",
		"train-count": o.TrainCount != 0, "train-index": o.TrainRows != "", "freeze": o.Freeze != nil, "learn": o.Learn != nil}
	f := &Flags{
		Model: ModelFlags{Path: o.Model, net: o.Network, Freeze: o.Freeze, Learn: o.Learn, memory: o.MaxMemory},
		Data: DataFlags{Name: o.Data, Target: o.Target, TestFile: o.TestData, ValidFile: o.ValidData, RowsFile: o.TrainRows, Count: o.TrainCount, ID: o.ID,
			held: o.Rows, ClassText: JoinNames(o.Classes), ClassNameText: JoinNames(o.ClassNames), InMemory: o.InMemory},
		Task:    TaskFlags{Likelihood: o.Likelihood, Precision: o.Precision, WeightDecay: o.WeightDecay, Noise: o.Noise},
		Limits:  LimitFlags{Seed: o.Seed, Memory: o.MaxMemory},
		Scaling: ScalingFlags{Standardize: o.Standardize},
	}
	switch {
	case o.Rows != nil:
		f.Data.Name = o.Rows.Name
	case f.Data.Name == "":
		f.Data.Name = "digits"
	}
	if f.Scaling.Standardize == "" {
		f.Scaling.Standardize = "auto"
	}
	return f, f.Check(func(flag string) bool { return given[flag] }, nil)
}

// Remembers says that the model and the data that were not named are those of a saved posterior.
func (s *Flags) Remembers() *Flags {
	s.Data.remembered = !s.given("data")
	return s
}

// Read reads the inputs of rows of one's own, as --input does.
func (p *Problem) Read(ctx context.Context, path string, o dataset.InputOptions) (*Asked, error) {
	o.Like, o.ID = p.Examples.Data, p.Examples.Data.ID
	in, err := dataset.ReadInputs(ctx, path, &o)
	if err != nil {
		return nil, err
	}
	rows, err := in.Set.Select(nil)
	return &Asked{rows, path, in.Notes}, err
}
