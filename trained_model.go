package funcgp

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// builtin is the network that is used without Model.File. It was made by
//
//	gpexplain train --arch thesis-cnn --data digits --classes 4,9 --train-count 1500 --prior-precision 10 --out testdata/builtin.onnx
//
//go:embed testdata/builtin.onnx
var builtin []byte

const builtinName = "the built-in network"

// A trainedModel is a network with the metadata of its training. It is immutable; training returns a new one.
type trainedModel struct {
	Name    string           // the path or "the built-in network", for messages
	Path    string           // "" for the built-in network
	Net     *network.Network // nil where it is still to be trained
	Outputs int              // C
	Meta    *metadata

	read      *network.Network // as it was read, before heads and scalings
	wrongHead error            // what is wrong with a head that is part of the outputs; nil for nothing
}

// readModel reads the network and its metadata. Warnings on reading it go to the console.
func readModel(ctx context.Context, c *job.Job, a *asked) (*trainedModel, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &trainedModel{Name: builtinName}
	f, held := &a.Model, builtin
	if a.network != nil {
		m.Name, held = a.posterior, a.network
	}
	o := &network.ReadOptions{Layers: f.Layers, Freeze: f.Freeze, Learn: f.Learn, Tie: f.Tie, Output: f.Output, Bind: f.Bind, MaxMemory: a.Fit.Memory}
	var err error
	switch {
	case f.Network != nil:
		if m.Name, m.Net = "the network", f.Network; len(f.Layers) > 0 {
			m.Net, err = f.Network.WithLayers(f.Layers...)
		}
	case f.File == "":
		m.Net, err = network.ReadONNX(bytes.NewReader(held), o)
	default:
		m.Name, m.Path = f.File, f.File
		m.Net, err = network.ReadONNXFile(ctx, f.File, o)
	}
	if err != nil {
		return nil, modelError(m.Name, err)
	}
	m.read = m.Net
	_, m.Outputs, _ = m.Net.Dims()
	if m.Meta, err = readMetadata(m.Net.Metadata()); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	for _, w := range m.Net.Warnings() {
		switch linearize.WarningOf(w).Code {
		case "head": // the likelihood decides: see withHead
		case "inputs-scaled": // the rows are scaled: see scalingOf
		default:
			c.Warn(w)
		}
	}
	return m, nil
}

// modelError names the file once, and what to do about it.
func modelError(name string, err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return option.Errorf("%s: %w; {model} takes an ONNX file, and without it the built-in network is used", name, p.Err)
	}
	if job.IsCancelled(err) {
		return err
	}
	text, remedy := err.Error(), option.Text("")
	switch f := (*onnx.FormatError)(nil); {
	case errors.As(err, &f) && !f.Unsupported && strings.Contains(text, "ONNX file"):
		remedy = "; export the model again"
	case errors.As(err, &f) && !f.Unsupported:
		remedy = "; it is damaged or no ONNX file: export the model again"
	case strings.Contains(text, "; "):
	case strings.Contains(text, "would mix examples"):
		remedy = "; every example must be computed by itself, in evaluation mode and with a dynamic batch dimension"
	default:
		remedy = "; {inspect operators} says what is read of each operator"
	}
	return option.Errorf("%s: %w%s", name, err, remedy)
}

// Files are the paths of the model and of the files in which it keeps its weights; none for the built-in network.
func (m *trainedModel) Files() []string {
	switch {
	case m.Path == "":
		return nil
	case m.Net == nil:
		return []string{m.Path}
	}
	return append([]string{m.Path}, m.Net.ExternalFiles()...)
}

// ONNX is the network as it was read, as an ONNX file with the weights inside.
func (m *trainedModel) ONNX() ([]byte, error) {
	if m.Path != "" && len(m.read.ExternalFiles()) == 0 {
		return os.ReadFile(m.Path)
	}
	var b bytes.Buffer
	err := m.read.WriteONNX(&b)
	return b.Bytes(), err
}

// Parameters returns P.
func (m *trainedModel) Parameters() int {
	_, _, p := m.Net.Dims()
	return p
}

// Trained returns the model with a network in the place of the one that was still to be trained.
func (m *trainedModel) Trained(net *network.Network) *trainedModel {
	out := *m
	out.Net = net
	return &out
}

// forward calls do with the network's outputs at tiles of rows, and the number of the first row of each.
func (m *trainedModel) forward(ctx context.Context, e *examples, rows *dataset.Rows, do func(lo int, f *mat.Dense)) error {
	for t := range par.Tiles(rows.Len(), predictRows) {
		lo, hi := par.Bounds(t, rows.Len(), predictRows)
		x, err := e.Inputs(ctx, rows, lo, hi)
		if err != nil {
			return err
		}
		f, err := m.Net.Forward(ctx, x)
		if err != nil {
			return explainError(rows.Slice(lo, hi), err)
		}
		do(lo, f)
	}
	return nil
}

// Score is the accuracy and the mean negative log likelihood of the network itself on rows with these targets. Both
// are undefined where the rows are nil, and the accuracy for a regression; of several labels it is the share of all labels.
func (m *trainedModel) Score(ctx context.Context, p *problem, rows *dataset.Rows, y *mat.Dense) (accuracy, nll result.Float, err error) {
	accuracy, nll = result.Undefined(), result.Undefined()
	if rows == nil {
		return accuracy, nll, nil
	}
	right, sum := 0.0, 0.0
	if err := m.forward(ctx, p.Examples, rows, func(lo int, f *mat.Dense) {
		for i := range f.RawMatrix().Rows {
			sum -= p.Task.Likelihood.LogProb(y.RawRowView(lo+i), f.RawRowView(i))
			switch {
			case p.Task.MultiLabel():
				right += rightLabels(y.RawRowView(lo+i), f.RawRowView(i))
			case p.Task.Classes != nil && largestClass(f.RawRowView(i)) == rows.Class[lo+i]:
				right++
			}
		}
	}); err != nil {
		return accuracy, nll, err
	}
	if hasClasses(p.Task.Likelihood) {
		accuracy = result.Float(right / float64(rows.Len()))
	}
	return accuracy, result.Float(sum / float64(rows.Len())), nil
}

// rightLabels returns the share of labels in y that the sign of the output predicts correctly.
func rightLabels(y, f []float64) float64 {
	right := 0.0
	for j, v := range f {
		if v > 0 == (y[j] > .5) {
			right++
		}
	}
	return right / float64(len(f))
}
