package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A file is one kind that gpexplain writes and reads.
type file struct {
	kind string
	make []string // arguments of the verb that writes it to OUT
	read []string // arguments of one that reads it, IN, and perhaps writes to OUT
	text bool     // without a checksum, so that another number in it is another answer
	// The verb is killed once the file is there, which is a checkpoint, as it would remove it at its end.
	killed bool
}

// damaged are the kinds of files whose bytes are flipped. A word with a slash before it names the
// file of an earlier kind.
func damaged() []file {
	rows := []string{"--quiet", "--data", "digits:300,20"} // 3 test rows, of two classes
	data := append(slices.Clone(rows), "--train-count", "40")
	fit := func(kind string, more ...string) file {
		return file{kind: kind, make: append(append([]string{"fit", "--out", "OUT"}, data...), more...), read: []string{"predict", "--quiet", "--posterior", "IN"}}
	}
	// A verb goes on from the checkpoint IN and writes its result.
	goesOn := func(kind string, more ...string) file {
		args := append(append([]string{"fit"}, data...), more...)
		return file{kind: kind, make: append(slices.Clone(args), "--checkpoint", "OUT", "--out", "/ended"), read: append(args, "--checkpoint", "IN", "--out", "OUT"), killed: true}
	}
	online := []string{"train", "--quiet", "--data", "digits:60,20", "--arch", "autoencoder:8-2", "--online"}
	return []file{
		fit("exact"), fit("refit", "--refit"), fit("kept", "--method", "kept"), fit("subset", "--method", "subset", "--inducing", "20"),
		fit("nystrom", "--method", "nystrom", "--inducing", "10"), fit("parameters", "--method", "parameters"),
		fit("with-inputs", "--with-inputs"), fit("bundle", "--bundle"),
		goesOn("checkpoint-nystrom", "--method", "nystrom", "--inducing", "10"), goesOn("checkpoint-kept", "--method", "kept", "--within", "0.2", "--refit"),
		{kind: "checkpoint-online", make: append(slices.Clone(online), "--epochs", "1", "--checkpoint", "OUT", "--out", "/net.onnx"), read: append(slices.Clone(online), "--epochs", "2", "--checkpoint", "IN", "--out", "OUT")},
		{kind: "inducing", make: append([]string{"fit", "--select-only", "--inducing", "10", "--out", "OUT"}, data...), read: append([]string{"fit", "--inducing-file", "IN", "--shard", "0/2", "--out", "OUT"}, rows...)},
		{kind: "part", make: append([]string{"fit", "--inducing-file", "/inducing", "--shard", "0/2", "--out", "OUT"}, rows...), read: []string{"merge", "--quiet", "IN", "/other-part", "--out", "OUT"}},
		{kind: "other-part", make: append([]string{"fit", "--inducing-file", "/inducing", "--shard", "1/2", "--out", "OUT"}, rows...)},
		{kind: "terms", make: []string{"explain", "--quiet", "--posterior", "/nystrom", "--shard", "0/2", "--out", "OUT"}, read: []string{"merge", "--json", "IN", "/other-terms"}},
		{kind: "other-terms", make: []string{"explain", "--quiet", "--posterior", "/nystrom", "--shard", "1/2", "--out", "OUT"}},
		{kind: "prior", make: append([]string{"evidence", "--optimize", "--out", "OUT"}, data...), read: append([]string{"fit", "--prior", "IN", "--out", "OUT"}, data...), text: true},
		{kind: "model", make: []string{"train", "--quiet", "--data", "digits:300,20", "--epochs", "1", "--out", "OUT"}, read: append([]string{"evidence", "--json", "--model", "IN"}, data...), text: true},
	}
}

// write makes the file of the kind in the run's folder.
func (f *file) write(ctx context.Context, env *Env) error {
	path := filepath.Join(env.Temp, f.kind)
	if !f.killed {
		if _, stderr, exit := env.Gpexplain(ctx, env.fill(f.make, "", path)...); exit != 0 {
			return fmt.Errorf("%s: %s", f.kind, stderr)
		}
		return nil
	}
	for range 100 { // the verb may end first
		p := exec.CommandContext(ctx, env.Program, env.fill(f.make, "", path)...)
		p.Dir = env.Temp
		if err := p.Start(); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Wait() }()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			case <-time.After(time.Millisecond):
				if _, err := os.Stat(path); err == nil {
					_ = p.Process.Kill()
				}
			}
		}
		if _, err := os.Stat(path); err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: no checkpoint was there when the verb was killed", f.kind)
}

// fill writes the names of files into arguments.
func (e *Env) fill(args []string, in, out string) []string {
	list := make([]string, len(args))
	for i, a := range args {
		switch {
		case a == "IN":
			a = in
		case a == "OUT":
			a = out
		case strings.HasPrefix(a, "/"):
			a = filepath.Join(e.Temp, a[1:])
		}
		list[i] = a
	}
	return list
}

var timings = regexp.MustCompile(`"timings":\{[^}]*\}`)

// answer is what arguments write to stdout and to out, without the times that it took.
func (e *Env) answer(ctx context.Context, args []string, out string) (said []byte, stderr string, exit int, err error) {
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", 0, err
	}
	stdout, stderr, exit := e.Gpexplain(ctx, args...)
	said = timings.ReplaceAll([]byte(stdout), nil)
	written, err := os.ReadFile(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", 0, err
	}
	return append(said, timings.ReplaceAll(written, nil)...), stderr, exit, nil
}

// wrong says what is wrong with the end of a program that was given something damaged, or
// nothing: it may answer, or refuse in one line.
func wrong(stderr string, exit int) string {
	switch lines := strings.Count(strings.TrimSpace(stderr), "\n"); {
	case exit == 0:
		return ""
	case exit != 1 && exit != 2 || strings.Contains(stderr, "goroutine "):
		return fmt.Sprintf("it ends with status %d: %.400s", exit, stderr)
	case stderr == "" || lines > 0:
		return fmt.Sprintf("it is refused in %d lines: %.400s", lines+1, stderr)
	}
	return ""
}

// flips damages one file after the other: mostly a byte, also its end or a run of bytes. A
// damaged file must be refused, or give the answer of the whole one.
var flips = Part{"flips", "a byte, a run or the end of every kind of file damaged: refused in one line, or the same answer",
	func(ctx context.Context, env *Env) error {
		for _, f := range damaged() {
			if err := f.write(ctx, env); err != nil {
				return err
			}
		}
		return nil
	},
	func(ctx context.Context, env *Env, r *Result) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		errs := make([]error, 2) // two trials side by side
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				if errs[i] = flip(ctx, env, r, i, len(errs)); errs[i] != nil {
					stop()
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	},
}

// flip does the trials of which every step-th is first, in a folder of its own.
func flip(ctx context.Context, env *Env, r *Result, first, step int) error {
	dir := filepath.Join(env.Temp, fmt.Sprint("flip-", first))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, in := filepath.Join(dir, "out"), filepath.Join(dir, "in")
	want, list := map[string][]byte{}, damaged()
	for n := uint64(first); ; n += uint64(step) {
		for _, f := range list {
			if f.read == nil {
				continue
			}
			if ctx.Err() != nil {
				return nil
			}
			whole, err := os.ReadFile(filepath.Join(env.Temp, f.kind))
			if err != nil {
				return err
			}
			if want[f.kind] == nil {
				if err := os.WriteFile(in, whole, 0o644); err != nil { // a verb that goes on from a checkpoint removes it
					return err
				}
				said, stderr, exit, err := env.answer(ctx, env.fill(f.read, in, out), out)
				if ctx.Err() != nil {
					return nil
				}
				if err != nil || exit != 0 {
					return errors.Join(err, fmt.Errorf("%s: %s", f.kind, stderr))
				}
				want[f.kind] = said
			}
			text, what := damage(env.Rand(n), whole)
			if err := os.WriteFile(in, text, 0o644); err != nil {
				return err
			}
			within, stop := context.WithTimeout(ctx, time.Minute)
			start := time.Now()
			said, stderr, exit, err := env.answer(within, env.fill(f.read, in, out), out)
			stop()
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
			r.Count(f.kind, 1)
			switch {
			case exit == -1 && time.Since(start) >= time.Minute:
				r.Find("%s with %s takes more than a minute", f.kind, what)
			case wrong(stderr, exit) != "":
				r.Find("%s with %s: %s", f.kind, what, wrong(stderr, exit))
			case exit == 0 && !f.text && !bytes.Equal(said, want[f.kind]):
				r.Find("%s with %s gives another answer", f.kind, what)
			case exit != 0 && len(said) > 0:
				r.Find("%s with %s is refused and leaves %d bytes of an answer", f.kind, what, len(said))
			}
		}
	}
}

// damage returns a file that differs from whole in a byte, in a run of bytes or in its end, and says in
// what.
func damage(rng *rand.Rand, whole []byte) (text []byte, what string) {
	text = bytes.Clone(whole)
	switch at := rng.IntN(len(text)); rng.IntN(10) {
	case 0:
		text, what = text[:at], fmt.Sprintf("cut at %d", at)
	case 1:
		end := min(len(text), at+1+rng.IntN(64))
		for i := at; i < end; i++ {
			text[i] = byte(rng.Uint32())
		}
		what = fmt.Sprintf("random bytes %d to %d", at, end)
	default:
		mask := byte(1 + rng.IntN(255))
		text[at] ^= mask
		what = fmt.Sprintf("byte %d xor %d", at, mask)
	}
	return text, what
}

// A long is a verb that keeps a checkpoint.
type long struct {
	kind string
	args []string // writes to OUT and keeps its state in IN
	read []string // answers from what it wrote, OUT; empty where its bytes are compared
	// More epochs go on from the checkpoint of training that ended, which therefore stays.
	stays bool
}

// answer is what the result of the verb says.
func (l *long) answer(ctx context.Context, env *Env, out string) (said, stderr string, exit int) {
	if len(l.read) > 0 {
		return env.Gpexplain(ctx, env.fill(l.read, "", out)...)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return "", err.Error(), 1
	}
	return string(text), "", 0
}

func longs() []long {
	fit := func(kind string, more ...string) long {
		return long{kind, append([]string{"fit", "--quiet", "--data", "digits:4000,40", "--out", "OUT", "--checkpoint", "IN"}, more...), []string{"predict", "--quiet", "--posterior", "OUT"}, false}
	}
	return []long{
		fit("fit-nystrom", "--method", "nystrom", "--inducing", "60"),
		fit("fit-refit", "--method", "nystrom", "--inducing", "60", "--refit"),
		{"fit-kept", []string{"fit", "--quiet", "--data", "digits:1500,50", "--train-count", "150", "--within", "0.2", "--refit", "--out", "OUT", "--checkpoint", "IN"}, []string{"predict", "--quiet", "--posterior", "OUT"}, false},
		{"train-online", []string{"train", "--quiet", "--data", "digits:200,50", "--arch", "autoencoder:32-2", "--online", "--epochs", "3", "--out", "OUT", "--checkpoint", "IN"}, nil, true},
	}
}

// kills ends long verbs at random moments, by a signal that they can catch or not, some times over,
// and then lets them end: the answer must be that of one that was never interrupted, and what is at
// the place of the result in between must be nothing or whole.
var kills = Part{Name: "kills", Short: "long verbs killed at random moments go on from their checkpoint to the same answer",
	Run: func(ctx context.Context, env *Env, r *Result) error {
		type whole struct {
			answer string
			took   time.Duration
		}
		want := map[string]whole{}
		for n := uint64(0); ; n++ {
			for _, l := range longs() {
				rng := env.Rand(n)
				out, state := filepath.Join(env.Temp, l.kind+".out"), filepath.Join(env.Temp, l.kind+".check")
				args := env.fill(l.args, state, out)
				for _, name := range []string{out, state} {
					if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
						return err
					}
				}
				start := time.Now()
				times := 0
				if w, ok := want[l.kind]; ok {
					for times = range 1 + rng.IntN(4) {
						p := exec.CommandContext(ctx, env.Program, args...)
						p.Dir = env.Temp
						if err := p.Start(); err != nil {
							return err
						}
						signal := []os.Signal{syscall.SIGKILL, syscall.SIGTERM, os.Interrupt}[rng.IntN(3)]
						ends := time.AfterFunc(time.Duration(rng.Float64()*1.1*float64(w.took)), func() { _ = p.Process.Signal(signal) })
						err := p.Wait()
						ends.Stop()
						if ctx.Err() != nil {
							return nil
						}
						if _, missing := os.Stat(out); missing == nil && err != nil {
							if answer, stderr, exit := l.answer(ctx, env, out); ctx.Err() == nil && (exit != 0 || answer != w.answer) {
								r.Find("%s killed by %v leaves a damaged result: %s", l.kind, signal, stderr)
							}
						}
						if err == nil {
							break // it ended before
						}
					}
				}
				_, stderr, exit := env.Gpexplain(ctx, args...)
				took := time.Since(start)
				if ctx.Err() != nil {
					return nil
				}
				if exit != 0 {
					if _, ok := want[l.kind]; !ok {
						return fmt.Errorf("%s: %s", l.kind, stderr)
					}
					r.Find("%s with seed %d, kill %d, does not go on after %d kills: %.300s", l.kind, env.Seed, n, times+1, stderr)
					continue
				}
				answer, stderr, exit := l.answer(ctx, env, out)
				if ctx.Err() != nil {
					return nil
				}
				switch w, ok := want[l.kind]; {
				case exit != 0:
					r.Find("%s ends with a result that cannot be read: %.300s", l.kind, stderr)
				case !ok:
					want[l.kind] = whole{answer, took}
					continue
				case answer != w.answer:
					r.Find("%s with seed %d, kill %d, gives another answer after %d kills", l.kind, env.Seed, n, times+1)
				}
				if _, err := os.Stat(state); err == nil && !l.stays {
					r.Find("%s leaves its checkpoint after it ended", l.kind)
				}
				r.Count(l.kind, 1)
			}
		}
	},
}
