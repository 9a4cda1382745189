package reproduce

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

// Run executes the steps of a part of a study whose results are not in dir yet, and
// keeps each result there. Several processes may share dir. With all steps as the
// part it then writes the page with its tables and plots, and returns the page's
// path; otherwise it returns "". A step that fails does not keep the others from
// being done.
func Run(ctx context.Context, c *console.Console, s *Study, dir string, o *Options, part Part) (page string, err error) {
	plan, err := s.Plan(ctx, o)
	if err != nil {
		return "", err
	}
	plan.check(s)
	r := &Results{dir: dir, study: s, plan: plan, quick: o.Quick}
	if err := os.MkdirAll(filepath.Join(dir, "steps"), 0o777); err != nil {
		return "", &atomicfile.Error{Path: dir, Err: console.CauseOf(err)}
	}
	if err := r.work(ctx, c, part); err != nil {
		return "", err
	}
	if part.M > 0 {
		return "", nil
	}
	return r.page(ctx, o)
}

// work executes the steps of a part that are not done.
func (r *Results) work(ctx context.Context, c *console.Console, part Part) error {
	var todo []*Step
	for i := range r.plan.Steps {
		step := &r.plan.Steps[i]
		if !part.has(i) {
			continue
		}
		have, err := r.read(step)
		if err != nil {
			return err
		}
		if have == nil {
			todo = append(todo, step)
		}
	}
	w := &worker{r: r, c: c, start: time.Now()}
	for _, step := range todo {
		w.total += step.cost()
	}
	c.Detail("%s: %d of %d steps to do", r.study.Name, len(todo), len(r.plan.Steps))
	var failed []error
	for i, step := range todo {
		w.what = fmt.Sprintf("%s: step %d of %d", r.study.Name, i+1, len(todo))
		err := w.do(ctx, step)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("step %s of %s: %w", step.Key, r.study.Name, err))
			c.Note("%v", failed[len(failed)-1])
		}
		w.done += step.cost()
	}
	c.ClearBar()
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	}
	return fmt.Errorf("%d steps failed, the first of them: %w", len(failed), failed[0])
}

// A worker executes steps one after the other and shows how far it is.
type worker struct {
	r           *Results
	c           *console.Console
	start       time.Time
	what        string
	done, total int // costs
}

// resolution is the number of parts into which the progress of a step of cost 1 is
// divided.
const resolution = 100

// do executes a step that another process has not done by now.
func (w *worker) do(ctx context.Context, s *Step) error {
	if have, err := w.r.read(s); have != nil || err != nil {
		return err
	}
	show := func(done, total int) {
		if total > 0 {
			w.c.Show(w.r.study.Name, w.done*resolution+min(done, total)*s.cost()*resolution/total, w.total*resolution)
		}
	}
	show(0, 1)
	start := time.Now()
	result, err := s.Run(ctx, show)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	if err := w.r.write(s, result, took); err != nil {
		return err
	}
	share := float64(w.done+s.cost()) / float64(w.total)
	left := time.Duration(float64(time.Since(w.start)) * (1/share - 1))
	w.c.Detail("%s: %s took %.1f s; about %v left", w.what, s.Key, took, left.Round(time.Second))
	show(1, 1)
	return nil
}
