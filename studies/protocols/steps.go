package protocols

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/studies/evaluate"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// rows are those of a protocol.
type rows struct{ x, y, testX, testY *mat.Dense }

// open reads the first training and test rows.
func (p *protocol) open(ctx context.Context) (*rows, error) {
	name := filepath.Join(p.data, "mnist")
	if p.quick {
		// Enough for the rows of two classes among ten.
		name = fmt.Sprintf("digits:%d,%d", 20*p.train, 20*p.test)
	}
	d, err := dataset.Open(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	r := &rows{}
	for _, part := range []struct {
		from *dataset.Rows
		n    int
		x, y **mat.Dense
	}{{d.Train, p.train, &r.x, &r.y}, {d.Test, p.test, &r.testX, &r.testY}} {
		few, err := part.from.Select(p.classes, part.n)
		if err != nil {
			return nil, err
		}
		*part.x, *part.y = few.Matrix(), mat.NewDense(few.Len(), 1, few.Targets)
		if p.scale[1] != 0 {
			(*part.x).Apply(func(_, _ int, v float64) float64 { return (v - p.scale[0]) / p.scale[1] }, *part.x)
		}
	}
	return r, nil
}

// A matrix is kept in a step's file as its numbers, little-endian.
type matrix struct {
	Rows    int    `json:"rows"`
	Columns int    `json:"columns"`
	Numbers []byte `json:"numbers"`
}

func keep(m *mat.Dense) matrix {
	r, c := m.Dims()
	k := matrix{Rows: r, Columns: c}
	for _, v := range dense.Contiguous(m) {
		k.Numbers = binary.LittleEndian.AppendUint64(k.Numbers, math.Float64bits(v))
	}
	return k
}

// dense returns the matrix. It is an error where the numbers do not fit the size.
func (k matrix) dense() (*mat.Dense, error) {
	if k.Rows < 1 || k.Columns < 1 || len(k.Numbers) != 8*k.Rows*k.Columns {
		return nil, fmt.Errorf("a result has %d bytes for %d×%d numbers; delete the files of the steps, and run the protocol again", len(k.Numbers), k.Rows, k.Columns)
	}
	m := mat.NewDense(k.Rows, k.Columns, nil)
	for i := range k.Rows {
		row := m.RawRowView(i)
		for j := range row {
			row[j] = math.Float64frombits(binary.LittleEndian.Uint64(k.Numbers[8*(i*k.Columns+j):]))
		}
	}
	return m, nil
}

// outcomes returns the margins of the test rows in run k of each half, S×T.
func (p *protocol) outcomes(ctx context.Context, k int, progress reproduce.Progress) (*matrix, error) {
	d, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := p.retraining(d)
	if err != nil {
		return nil, err
	}
	r.Progress = progress
	outputs, err := r.Outputs(ctx, p.runs(k))
	if err != nil {
		return nil, err
	}
	kept := keep(evaluate.Outcomes(outputs, d.testY, evaluate.Margin{}))
	return &kept, nil
}

// trained returns network m, trained on all rows, with checkpoints after these shares of
// the steps. It is that of the last one.
func (p *protocol) trained(ctx context.Context, m int, shares []float64) (*evaluate.Problem, error) {
	d, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	return p.trainedOn(ctx, d, m, shares)
}

// trainedOn is trained for rows that have been read.
func (p *protocol) trainedOn(ctx context.Context, d *rows, m int, shares []float64) (*evaluate.Problem, error) {
	r, err := p.retraining(d)
	if err != nil {
		return nil, err
	}
	start, err := r.Network(uint64(m))
	if err != nil {
		return nil, err
	}
	nets, err := r.Checkpoints(ctx, evaluate.Run{Seed: uint64(m)}, shares...)
	if err != nil {
		return nil, err
	}
	q := &evaluate.Problem{Network: nets[len(nets)-1], X: d.x, Y: d.y, TestX: d.testX, TestY: d.testY, Likelihood: p.likelihood, Initial: start.Theta()}
	for _, net := range nets {
		q.Checkpoints = append(q.Checkpoints, evaluate.Checkpoint{Network: net, Rate: rate})
	}
	return q, nil
}

// A judged method is what its scores predict for each half and test row, S×T. The
// predictions of several networks add up.
type judged struct {
	Name        string `json:"name"`
	Predictions matrix `json:"predictions"`
}

// methods are all that are compared on one network.
func (p *protocol) methods(model int) []evaluate.Method {
	return []evaluate.Method{
		evaluate.Random{Seed: uint64(model)},
		evaluate.GradientDot{},
		evaluate.TracIn{},
		evaluate.LastLayer{},
		evaluate.TRAK{Dim: p.projection, Seed: uint64(model)},
		evaluate.EKFAC{},
		evaluate.Kernel{Precision: p.precision(), Strength: p.strength},
		evaluate.Kernel{Precision: p.precision(), Strength: p.strength, AtTheta: true},
		evaluate.AlongTraining{Kernel: evaluate.Kernel{Precision: p.precision(), Strength: p.strength}},
	}
}

// attribute returns what all methods predict from network m.
func (p *protocol) attribute(ctx context.Context, m int, progress reproduce.Progress) ([]judged, error) {
	q, err := p.trained(ctx, m, p.shares)
	if err != nil {
		return nil, err
	}
	methods := p.methods(m)
	var out []judged
	for i, method := range methods {
		progress(i+1, len(methods))
		list, err := p.judge(ctx, q, method)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// path returns what the posteriors at checkpoints of network m predict, whose sites are
// those of the checkpoint.
func (p *protocol) path(ctx context.Context, m int) ([]judged, error) {
	q, err := p.trained(ctx, m, p.early)
	if err != nil {
		return nil, err
	}
	return p.judge(ctx, q, p.alongTraining())
}

// alongTraining is the sum over checkpoints of posteriors that have the sites of the
// checkpoint.
func (p *protocol) alongTraining() evaluate.Method {
	return evaluate.AlongTraining{Kernel: evaluate.Kernel{Precision: p.halved(), Strength: p.strength, AtTheta: true}}
}

// judge returns what the scores of a method predict.
func (p *protocol) judge(ctx context.Context, q *evaluate.Problem, method evaluate.Method) ([]judged, error) {
	list, err := method.Attribute(ctx, q)
	if err != nil {
		return nil, err
	}
	return p.predict(list), nil
}

// predict returns what attributions predict for the halves.
func (p *protocol) predict(list []evaluate.Attribution) []judged {
	var out []judged
	for _, a := range list {
		var sums mat.Dense
		evaluate.PredictionsTo(&sums, a.Scores, p.subsets())
		out = append(out, judged{a.Name, keep(&sums)})
	}
	return out
}

// A trial is a precision with what might choose it, and what its scores predict.
type trial struct {
	Evidence    result.Float `json:"log_evidence"`
	LeaveOneOut result.Float `json:"leave_one_out_nll"`
	Kept        int          `json:"kept_rows"`
	Judged      []judged     `json:"judged"`
}

// try attributes network 0 at another precision.
func (p *protocol) try(ctx context.Context, delta float64) (*trial, error) {
	q, err := p.trained(ctx, 0, p.shares)
	if err != nil {
		return nil, err
	}
	t := &trial{}
	for _, k := range []evaluate.Kernel{{Precision: delta, Strength: p.strength}, {Precision: delta, Strength: p.strength, AtTheta: true}} {
		f, err := k.Fit(ctx, q)
		if err != nil {
			return nil, err
		}
		if !k.AtTheta {
			nll, err := f.LeaveOneOut(ctx)
			if err != nil {
				return nil, err
			}
			t.Evidence, t.LeaveOneOut, t.Kept = result.Float(f.Evidence()), result.Float(nll), f.Kept()
		}
		list, err := f.Attribute(ctx)
		if err != nil {
			return nil, err
		}
		t.Judged = append(t.Judged, p.predict(list)...)
	}
	return t, nil
}
