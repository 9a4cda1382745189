package evaluate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// A Retraining trains networks of one kind on subsets of the same examples, and keeps
// their outputs at test rows in files, so that an interrupted evaluation goes on where it
// ended. Several processes may share the files.
type Retraining struct {
	// Network returns the network before it is trained, for a seed.
	Network func(seed uint64) (*network.Network, error)
	X, Y    *mat.Dense // all N training rows
	Test    *mat.Dense // rows at which the outputs are taken, T×D
	Loss    network.Loss
	// Options are those of each training. Its Seed is that of the run; Progress and
	// Objective are not called, and Validation must be nil.
	Options train.Options
	// Dir is the directory of the files, made where it is not there. A file's name says
	// what its outputs depend on, so that any evaluations may share it. "" keeps none.
	Dir string
	// AtOnce is how many networks are trained at once; 0 means GOMAXPROCS. The outputs
	// do not depend on it.
	AtOnce int
	// Progress, if not nil, is called with the number of runs that are done, from one
	// goroutine at a time.
	Progress func(done, total int)
}

// A Run is one training.
type Run struct {
	Rows []int  // the training rows, without repetitions; nil means all
	Seed uint64 // of the initial parameters, the order of the minibatches and Dropout
}

const (
	outputsKind    = "outputs of a run"
	outputsVersion = 1
)

// Train trains the network of a run.
func (r *Retraining) Train(ctx context.Context, run Run) (*network.Network, error) {
	nets, err := r.Checkpoints(ctx, run, 1)
	if err != nil {
		return nil, err
	}
	return nets[0], nil
}

// Checkpoints trains the network of a run and returns it after these shares of the steps,
// above 0 and at most 1. A checkpoint is trained from the beginning with fewer steps, which
// are the same ones as long as Options.Schedule is train.Constant; with another it is an
// error, unless the share is 1. Options.Epochs or Options.Steps must be given.
func (r *Retraining) Checkpoints(ctx context.Context, run Run, shares ...float64) ([]*network.Network, error) {
	start, err := r.Network(run.Seed)
	if err != nil {
		return nil, err
	}
	x, y, err := r.rows(run)
	if err != nil {
		return nil, err
	}
	var nets []*network.Network
	for _, share := range shares {
		o, err := r.options(run, share, dense.Count(x))
		if err != nil {
			return nil, err
		}
		net, _, err := train.MAP(ctx, start, x, y, r.Loss, &o)
		if err != nil {
			return nil, fmt.Errorf("evaluate: training with seed %d on %d rows: %w", run.Seed, dense.Count(x), err)
		}
		nets = append(nets, net)
	}
	return nets, nil
}

// options returns the options of a run that makes a share of the steps on n rows.
func (r *Retraining) options(run Run, share float64, n int) (train.Options, error) {
	o := r.Options
	o.Seed, o.Progress, o.Objective = run.Seed, nil, nil
	if o.Validation != nil {
		return o, errors.New("evaluate: a retraining has no validation rows; give a number of epochs instead")
	}
	if share == 1 {
		return o, nil
	}
	if _, constant := o.Schedule.(train.Constant); !constant || !(share > 0 && share < 1) || o.Batch < 1 || o.Epochs < 1 && o.Steps < 1 {
		return o, fmt.Errorf("evaluate: no checkpoint after a share of %v of the steps: it needs a share above 0 and at most 1, a constant step size, and a batch and a number of epochs that are given", share)
	}
	if o.Steps == 0 {
		o.Steps = o.Epochs * (n / min(o.Batch, n))
	}
	o.Steps, o.LBFGS = max(1, int(share*float64(o.Steps))), -1
	return o, nil
}

// rows returns the training rows of a run.
func (r *Retraining) rows(run Run) (x, y *mat.Dense, err error) {
	n := dense.Count(r.X)
	if n != dense.Count(r.Y) {
		panic("evaluate: inputs and targets differ in rows")
	}
	if run.Rows == nil {
		return r.X, r.Y, nil
	}
	if len(run.Rows) == 0 {
		return nil, nil, errors.New("evaluate: a run without training rows")
	}
	seen := make([]bool, n)
	for _, i := range run.Rows {
		if i < 0 || i >= n || seen[i] {
			return nil, nil, fmt.Errorf("evaluate: row %d of a run is none of the %d training rows, or is there twice", i, n)
		}
		seen[i] = true
	}
	return pick(r.X, run.Rows), pick(r.Y, run.Rows), nil
}

// pick returns the given rows of m.
func pick(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	to := mat.NewDense(len(rows), c, nil)
	for i, at := range rows {
		to.SetRow(i, m.RawRowView(at))
	}
	return to
}

// Outputs returns f(x;θ) of the network of each run at the test rows, T×C. Runs whose
// outputs are in a file are not trained.
func (r *Retraining) Outputs(ctx context.Context, runs []Run) ([]*mat.Dense, error) {
	if r.Dir != "" {
		if err := os.MkdirAll(r.Dir, 0o777); err != nil {
			return nil, fmt.Errorf("evaluate: the directory of the trained networks' outputs: %w", err)
		}
	}
	data := [3]linearize.Sum{sumOf(r.X), sumOf(r.Y), sumOf(r.Test)}
	out := make([]*mat.Dense, len(runs))
	var mu sync.Mutex
	done := 0
	err := par.DoWorker(ctx, cmp.Or(r.AtOnce, runtime.GOMAXPROCS(0)), len(runs), func(_, i int) (err error) {
		if out[i], err = r.outputs(ctx, runs[i], data); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		if r.Progress != nil {
			r.Progress(done, len(runs))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// outputs returns the outputs of one run, from its file where there is one.
func (r *Retraining) outputs(ctx context.Context, run Run, data [3]linearize.Sum) (*mat.Dense, error) {
	if r.Dir == "" {
		return r.fresh(ctx, run)
	}
	key, err := r.key(run, data)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.Dir, key+".outputs")
	_, err = os.Stat(path)
	if err == nil {
		return readOutputs(path, dense.Count(r.Test))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := r.fresh(ctx, run)
	if err != nil {
		return nil, err
	}
	rows, c := f.Dims()
	return f, store.Write(path, outputsKind, outputsVersion, func(w *store.Writer) error {
		w.JSON("size", [2]int{rows, c})
		w.Floats("f", dense.Flat(f))
		return nil
	})
}

// fresh trains the network of a run and returns its outputs.
func (r *Retraining) fresh(ctx context.Context, run Run) (*mat.Dense, error) {
	net, err := r.Train(ctx, run)
	if err != nil {
		return nil, err
	}
	return net.Forward(ctx, r.Test)
}

// readOutputs reads the file of a run.
func readOutputs(path string, rows int) (*mat.Dense, error) {
	f, err := store.Open(path, outputsKind, outputsVersion)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var size [2]int
	in := f.Reader("")
	in.JSON("size", &size)
	if in.Err() == nil && (size[0] != rows || size[1] < 1) {
		_ = in.Fail("delete it", "its outputs are %d×%d, not of %d rows", size[0], size[1], rows)
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	v := in.Floats("f", size[0], size[1])
	if in.Err() != nil {
		return nil, in.Err()
	}
	return mat.DenseCopyOf(mat.NewDense(size[0], size[1], append([]float64(nil), v...))), nil
}

// key identifies what the outputs of a run depend on.
func (r *Retraining) key(run Run, data [3]linearize.Sum) (string, error) {
	start, err := r.Network(run.Seed)
	if err != nil {
		return "", err
	}
	o, err := r.options(run, 1, 0)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	// A hash never returns an error.
	_, _ = fmt.Fprintf(h, "version %d\nnetwork %x\ndata %x\nrows %v\nall %t\nloss %T%+v\n", outputsVersion, start.Fingerprint(), data, run.Rows, run.Rows == nil, r.Loss, r.Loss)
	_, _ = fmt.Fprintf(h, "prior %x %x\noptimizer %T%+v\nschedule %T%+v\n", linearize.SumOf(o.Precision), linearize.SumOf(o.Mean), o.Optimizer, o.Optimizer, o.Schedule, o.Schedule)
	_, _ = fmt.Fprintf(h, "given %t %t\nsteps %v %d %d %d %d %v\nseed %d\nevaluation %t\n", o.Precision != nil, o.Mean != nil, o.LearningRate, o.Batch, o.Epochs, o.Steps, o.LBFGS, o.Tolerance, o.Seed, o.Evaluation)
	return fmt.Sprintf("%x", h.Sum(nil)[:20]), nil
}

// sumOf returns the checksum of a matrix's entries, row by row.
func sumOf(m *mat.Dense) linearize.Sum { return linearize.SumOf(dense.Contiguous(m)) }
