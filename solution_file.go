package funcgp

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/ntk"
)

// header returns the description of the posterior for a file, and a function that writes its prior.
func (q *solution) header(ctx context.Context, r result.Fit) (savedHeader, func(w *store.Writer), error) {
	p, e, t := q.Problem, q.Problem.Examples, q.Problem.Task
	classes, names := t.Ungrouped()
	head := savedHeader{Rows: job.FormatRows(e.Train.Index), Grouped: t.Grouping.Report(), Seed: p.Seed, Select: q.How.selection, Inducing: q.How.inducing, Mean: q.How.mean,
		stated: stated{Likelihood: t.Likelihood.Name(), Classes: classes, ClassNames: slices.Concat(names, t.LabelNames), Noise: t.Noise, Precision: q.precision, ClassWeights: t.ClassWeights(), Smoothing: t.Loss.Smoothing},
		Bound:  q.Evidence.Bound, Fit: q.fileFit(p, r), Split: p.Split(), Scaling: e.Scaling.Saved(), Network: q.network}
	if q.elbo != nil {
		head.Targets = fingerprint(e.Train)
	}
	prior, writePrior := t.SavedPrior(p.Model, q.precision)
	head.GroupedPrior = prior
	var err error
	if head.Flags, err = p.SavedFlags(ctx); err == nil {
		head.Remembered, err = p.Remember(ctx)
	}
	return head, writePrior, err
}

// checkWithout returns an error if predictions by a method need the training inputs that are to be left out.
func checkWithout(method, selection string) error {
	if isSparse(method) && selection != result.SelectStrength {
		return nil
	}
	return job.FullErrorf("a posterior of {method=%s} predicts from all its training inputs, so that a file without them could not; give {method=nystrom} or subset, whose file needs those of the inducing rows alone", cmp.Or(method, "exact"))
}

// Save writes the posterior to a file, and deletes the checkpoint of its fit. r is its report.
func (q *solution) Save(ctx context.Context, c *job.Job, path string, r result.Fit, o SaveOptions) error {
	p := q.Problem
	if p.Withheld() {
		return job.FullErrorf("%s cannot be written: training inputs were left out of the file that the posterior is from; copy that file, or give {data} with the training data", path)
	}
	if p.Saved != nil { // what is written again is what it was
		h := &p.Saved.Header
		o.Inputs, o.Bundle, o.WithoutInputs = o.Inputs || h.Inputs, o.Bundle || h.Bundle, o.WithoutInputs || h.Without
	}
	if p.Joined() && !o.Inputs && !o.Bundle {
		o.Inputs = true
		c.Note("%s holds the training inputs, as they are from several files", path)
	}
	e := p.Examples
	head, writePrior, err := q.header(ctx, r)
	if err != nil {
		return err
	}
	var held []int // nil for all
	if o.WithoutInputs {
		if err := checkWithout(q.How.Name, q.How.selection); err != nil {
			return err
		}
		held = q.How.inducing
	}
	inputs := o.Inputs || o.Bundle
	head.Inputs, head.Bundle, head.Without = inputs && !o.WithoutInputs, o.Bundle, o.WithoutInputs
	if o.Bundle && head.Remembered != nil { // no path of this machine
		r := head.Remembered
		r.Model, r.Weight, r.Files, r.Test, r.Valid = "", nil, nil, "", ""
		if kind, _, _ := strings.Cut(r.Data, ":"); kind != "digits" {
			r.Data = insideData
		}
	}
	if k := q.Calibration; k != nil {
		head.CalibrationWarnings, head.RateKept = job.Kept(k.warnings), k.rateKept
		head.Fit.Warnings = slices.DeleteFunc(head.Fit.Warnings, func(w error) bool {
			return slices.ContainsFunc(head.CalibrationWarnings, func(of error) bool { return of.Error() == w.Error() })
		})
	}
	var rows *dataset.Rows
	if inputs {
		if rows, err = e.Train.Kept(ctx, held); err != nil {
			return err
		}
	}
	// A large file takes a while.
	if size := q.savedBytes(); size >= largeFile {
		c.Note("writing %s to %s, most of it the factor of the rows kept", job.SizeText(size), path)
	}
	if err := posteriorKind.Write(path, func(w *store.Writer) error {
		w.JSON("header", head)
		writePrior(w)
		if o.Bundle {
			if err := p.Model.AddNetwork(w); err != nil {
				return err
			}
		}
		if inputs {
			d := e.Data
			pixels, x, held := rows.Memory()
			w.JSON("inputs", storedRows{Rows: job.FormatRows(rows.Index), Shape: rows.Shape, Columns: rows.Columns,
				Integer: rows.Labels != nil, Names: rows.Names, IDs: rows.IDs, Held: held,
				Target: d.Target, TargetColumns: d.TargetColumns, ID: d.ID, Weights: d.Weights, LastTarget: d.LastTarget, AllColumns: d.AllColumns})
			w.Floats("inputs.targets", rows.Targets)
			if rows.Shares != nil {
				w.Floats("inputs.shares", rows.Shares)
			}
			if rows.Weights != nil {
				w.Floats("inputs.weights", rows.Weights)
			}
			w.Bytes("inputs.pixels", pixels)
			w.Floats("inputs.features", x)
		}
		if q.Calibration != nil {
			w.Floats("leave-one-out", packRows(q.Calibration.LeftOutRows))
		}
		if q.anchor != nil {
			w.Floats("anchor", q.anchor)
		}
		if q.detector != nil {
			if err := q.detector.Save(w); err != nil {
				return err
			}
		}
		return q.Dual.Save(w)
	}); err != nil {
		return err
	}
	return removeCheckpoint(q.checkpoint)
}

// largeFile is the size in bytes from which Save says beforehand how large a file will be.
const largeFile = 100e6

// savedBytes is about how many bytes a posterior of kept rows takes in a file; 0 for other methods.
func (q *solution) savedBytes() int64 {
	if q.kept != nil {
		return q.kept.SavedBytes()
	}
	return 0
}

// loadPosterior returns the posterior of the problem's file with its calibration. calibrate none omits the
// calibration, and skip omits the novelty detector too.
func loadPosterior(ctx context.Context, c *job.Job, p *problem, calibrate string) (*solution, error) {
	q, err := load(ctx, c, p)
	if err != nil {
		return nil, err
	}
	h := &p.Saved.Header
	c.Warn(job.Restored(slices.Concat(h.Fit.Warnings, h.Fit.Remarks))...)
	if q.settled == nil {
		if h.Fit.Refit {
			c.Note("the file is of an older version: its mean is that of a refit, and not the network's output")
		} else {
			c.Note("the file is of an older version: its covariance is that at the trained parameters, and not at the match; fit it again")
		}
	}
	if calibrate != "skip" {
		if err := q.detect(ctx, c, p, true); err != nil {
			return nil, err
		}
	}
	if k := h.Fit.Calibration; k != nil && calibrate != "skip" && calibrate != "none" {
		numbers, err := p.Saved.File.Floats("leave-one-out")
		if err != nil {
			return nil, err
		}
		rows, ok := unpackRows(numbers, p)
		if !ok {
			return nil, p.Saved.Damaged("its leave-one-out predictions cannot be used")
		}
		q.scoreLeftOut(p, rows)
		q.Calibration = &calibration{Calibration: *k, rateKept: h.RateKept, LeftOutRows: rows, warnings: job.Restored(h.CalibrationWarnings)}
		c.Warn(q.Calibration.warnings...)
	}
	return q, c.EndPart(ctx, "factorize")
}

// load returns the posterior of the problem's file without its calibration.
func load(ctx context.Context, c *job.Job, p *problem) (*solution, error) {
	v, h, f := p.Saved, &p.Saved.Header, &p.Saved.Header.Fit
	how := methodUsed{Name: f.Method, selection: h.Select, inducing: h.Inducing, mean: h.Mean}
	if !inRange(h.Inducing, p.Examples.Train.Len(), how.takesRows()) {
		return nil, v.Damaged("its inducing examples cannot be used")
	}
	s, n := solverOf(f.Method), p.Examples.Train.Len()
	if s.held != nil { // the others plan for themselves
		if err := planWhole("a saved posterior", p.Memory, wholeBytes(s.held(p, n, len(h.Inducing), how.inducingOutputs(p.Model.Outputs)))); err != nil {
			return nil, err
		}
	}
	prior, err := p.Task.PriorAt(h.Precision)
	if err != nil {
		return nil, err
	}
	q := &solution{Problem: p, network: h.Network, refitted: f.Refit, prior: prior, Kernel: ntk.New(prior, p.Model.Net.Theta()), How: how,
		precision: h.Precision, gradient: float64(f.GradientNorm),
		Evidence: gp.Evidence{Value: float64(f.LogEvidence), LogDet: float64(f.LogDet), LogLik: float64(f.LogLikelihood), Scatter: float64(f.Scatter), Bound: h.Bound},
		elbo:     f.ELBO, traceError: float64(f.TraceError), approximation: f.Approximation, certificate: f.Certificate, Tuning: f.Tuning, preflight: f.Preflight}
	if f.Match != nil {
		q.settled = &settlement{stated: float64(*f.StatedPrecision), match: *f.Match, why: option.Text(f.Match.Why)}
	}
	if v.File.Has("anchor") {
		r := v.File.Reader("")
		if q.anchor = r.Floats("anchor", p.Model.Parameters()); r.Err() != nil {
			return nil, r.Err()
		}
	}
	if err := c.EndPart(ctx, "load"); err != nil {
		return nil, err
	}
	// Linearize the training examples as the method needs them, and read the posterior.
	l := &loading{solution: q, con: c, problem: p, targets: p.TrainTargets()}
	if q.elbo != nil { // E r of the targets is at no point where r could be compared
		if l.targets = nil; h.Targets != fingerprint(p.Examples.Train) {
			return nil, &store.Error{File: v.path, Problem: "the targets of its training rows are others", Remedy: "give {data} with those that it was fitted to, or fit it again"}
		}
	}
	if l.x, err = p.TrainingExamples(ctx, s.whole || s.held == nil && p.KeepsJacobian()); err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	if len(h.Inducing) > 0 && !how.takesRows() { // rows are linearized as their directions in the file say
		if l.z, err = p.Inducing(ctx, h.Inducing); err != nil {
			return nil, explainError(p.Examples.Train, err)
		}
	}
	if err := c.EndPart(ctx, "linearize"); err != nil {
		return nil, err
	}
	q.Dual, err = s.load(ctx, l)
	c.Clear()
	if err != nil {
		return nil, explainError(p.Examples.Train, err)
	}
	return q, nil
}

// packRows packs leave-one-out predictions for a file, with the same number of values for each row.
func packRows(rows []result.Prediction) []float64 {
	var out []float64
	put := func(list ...result.Float) {
		for _, x := range list {
			out = append(out, float64(x))
		}
	}
	for i := range rows {
		r := &rows[i]
		put(result.Float(r.Index), r.Label, r.Class, r.LogDensity, r.MAPLogDensity, r.Novelty.Entropy, r.Novelty.MutualInformation)
		put(r.Probability...)
		put(r.MAPProbability...)
		if r.Probability == nil {
			observation, function := result.Undefined(), result.Undefined() // of several targets that were read from a file
			if r.ObservationSD != nil {
				observation, function = r.ObservationSD[0], r.FunctionSD[0]
			}
			put(observation, function, r.Expected, r.MAPExpected, r.CDF, r.MAPCDF)
		}
	}
	return out
}

// unpackRows reads what packRows wrote for the problem; ok is false where it cannot be that.
func unpackRows(v []float64, p *problem) (rows []result.Prediction, ok bool) {
	const common, regression = 7, 6
	classes, k := p.Task.Classes, len(p.Task.Classes) // k probabilities a row
	if p.Task.MultiLabel() {
		k = p.Model.Outputs
	}
	width := common + regression
	if k > 0 {
		width = common + 2*k
	}
	train, at := p.Examples.Train, map[int]int{}
	for i, r := range train.Index {
		at[r] = i
	}
	for part := range slices.Chunk(result.Floats(v), width) {
		r := result.Prediction{NamedRow: &result.NamedRow{Index: -1}}
		if part[0] >= 0 && part[0] < math.MaxInt32 {
			r.Index = result.Index(part[0])
		}
		i, training := at[int(r.Index)]
		if len(part) < width || !training || classes != nil && !slices.Contains(p.Task.Labels(), part[1]) {
			return nil, false
		}
		r.Label, r.Class, r.LogDensity, r.MAPLogDensity = part[1], part[2], part[3], part[4]
		r.Novelty = &result.Novelty{Score: result.Undefined(), Rank: result.Undefined(), Entropy: part[5], MutualInformation: part[6]}
		if k > 0 {
			r.Probability, r.MAPProbability = part[common:common+k], part[common+k:]
		} else {
			r.ObservationSD, r.FunctionSD, r.Expected, r.MAPExpected, r.CDF, r.MAPCDF = part[7:8], part[8:9], part[9], part[10], part[11], part[12]
		}
		if r.Targets = severalOf(train, i); r.Targets != nil {
			r.ObservationSD, r.FunctionSD = nil, nil // of which only the first was kept
		}
		rows = append(rows, r)
	}
	return rows, true
}

// inRange tells whether all positions are below n. Unless repeat is set, they must also differ.
func inRange(positions []int, n int, repeat bool) bool {
	seen := make([]bool, n)
	for _, at := range positions {
		if at < 0 || at >= n || seen[at] && !repeat {
			return false
		}
		seen[at] = true
	}
	return true
}

// again returns the method of a fit, so that it can be used with other training rows. The method must be exact,
// parameters or kept.
func again(was *result.Fit) Method {
	m := Method{Name: was.Method}
	if was.Method == "kept" {
		m.Within, m.Certify = float64(was.Certificate.Within), !was.Certificate.Sampled
	}
	return m
}

// savedMethod returns the method of the problem's posterior file, for a fit at the prior of that file. It
// returns an error for methods other than exact, parameters and kept.
func (p *problem) savedMethod() (Method, error) {
	switch was := &p.Saved.Header.Fit; was.Method {
	case "exact", "parameters", "kept":
		return again(was), nil
	default:
		return Method{}, option.Errorf("evidence {posterior} is for posteriors of {method=exact}, parameters and kept, and this one is of %s; its evidence is fit.log_evidence of explain {posterior} {json}", was.Method)
	}
}

// Again fits the posterior of a problem with other training rows, by the method and at the prior of q, and
// calibrates it as q is calibrated. flag names the option or verb that asked for it.
func (q *solution) Again(ctx context.Context, c *job.Job, p *problem, flag option.Text) (*solution, error) {
	if err := changeable(flag, q.How.Name, p.Saved != nil, q.network || q.refitted); err != nil && q.How.Name != "parameters" {
		return nil, err
	}
	was, calibrate := q.Report(q.Problem, nil), "none"
	if was.Calibration != nil {
		calibrate = was.Calibration.Method
	}
	out, err := solve(ctx, c, p.At(q.precision), &FitOptions{Method: again(&was), Refit: was.Refit, Inference: was.Inference, Prior: Prior{At: atStated}, Calibrate: calibrate})
	if err != nil {
		return nil, err
	}
	out.settled = q.settled // the match belongs to the network and the rows that it was found with
	if out.network {
		out.anchor, err = q.anchored(ctx, q.Problem)
	}
	return out, err
}
