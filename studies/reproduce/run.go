package reproduce

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Run executes the steps of a part of a study whose results are not in dir yet, and
// keeps each result there. Several processes may share dir. With all steps as the
// part it then writes the page with its tables and plots, and returns the page's
// path; otherwise it returns "". A step that fails does not keep the others from
// being done. What is done is said on log, a line a step.
func Run(ctx context.Context, log io.Writer, s *Study, dir string, o *Options, part Part) (page string, err error) {
	plan, err := s.Plan(ctx, o)
	if err != nil {
		return "", err
	}
	plan.check(s)
	r := &Results{dir: dir, study: s, plan: plan, quick: o.Quick}
	if err := os.MkdirAll(filepath.Join(dir, "steps"), 0o777); err != nil {
		return "", err
	}
	if err := r.work(ctx, log, part); err != nil {
		return "", err
	}
	if part.M > 0 {
		return "", nil
	}
	return r.page(ctx, o)
}

// work executes the steps of a part that are not done.
func (r *Results) work(ctx context.Context, log io.Writer, part Part) error {
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
	done, total, began := 0, 0, time.Now()
	for _, step := range todo {
		total += step.cost()
	}
	fmt.Fprintf(log, "%s: %d of %d steps to do\n", r.study.Name, len(todo), len(r.plan.Steps))
	var failed []error
	for i, step := range todo {
		took, err := r.do(ctx, step)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("step %s of %s: %w", step.Key, r.study.Name, err))
			fmt.Fprintln(log, failed[len(failed)-1])
			continue
		}
		done += step.cost()
		left := time.Duration(float64(time.Since(began)) * (float64(total)/float64(done) - 1))
		fmt.Fprintf(log, "%s: step %d of %d: %s took %.1f s; about %v left\n", r.study.Name, i+1, len(todo), step.Key, took.Seconds(), left.Round(time.Second))
	}
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	}
	return fmt.Errorf("%d steps failed, the first of them: %w", len(failed), failed[0])
}

// do executes a step that another process has not done by now, and returns the time it took.
func (r *Results) do(ctx context.Context, s *Step) (time.Duration, error) {
	if have, err := r.read(s); have != nil || err != nil {
		return 0, err
	}
	start := time.Now()
	result, err := s.Run(ctx, func(int, int) {})
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, r.write(s, result, took.Seconds())
}
