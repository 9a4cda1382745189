// Package limits measures how near whole jobs are to the limits of the machine: what each stage needs at least of
// arithmetic and of memory, what it takes, and what dgemm and a triad reach in the same run. Beside it runs the same job
// in PyTorch, written by hand.
//
//	go run ./gpstudies limits -json limits.json
//	go run ./gpstudies limits -pytorch /usr/bin/python3 -json limits.json
//
// It needs nothing but its own binary, which may be static:
//
//	CGO_ENABLED=0 go build -o gpstudies ./gpstudies && GODEBUG=cpu.avx512f=off taskset -c 0,1 ./gpstudies limits
package limits

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dense"
)

// Results are what is measured.
type results struct {
	Processor, Kernels, Go, Torch string
	Threads, Runs                 int
	Gemm, Triad                   []float64 // flops and bytes a second, before each job and after the last
	Jobs                          []measured
}

// A measured is a job with the medians of its runs.
type measured struct {
	Name        string
	Stages      []stage
	Seconds     map[string]float64 // by part
	Gemm, Triad float64            // mean of before and after
	Bytes       int64              // peak memory of the process
	Torch       *beside            `json:",omitempty"`
}

// A beside is PyTorch in turn with a job.
type beside struct {
	Seconds, Ratio map[string]float64 // by part; the ratio is the median of those of the runs
	Bytes          int64
	Check          float64 // relative difference of the traces of the covariances
}

// An answer is what a process says of one run, ours or PyTorch's.
type answer struct {
	Version string
	Stages  []stage
	Check   float64
	Bytes   int64
}

//go:embed pytorch.py
var script string

// Run measures, prints tables and writes the figures to a file.
func Run(ctx context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("limits", flag.ContinueOnError)
	f.SetOutput(out)
	names := f.String("job", "", "jobs to measure, separated by commas, instead of all: "+jobNames())
	runs := f.Int("runs", 5, "runs of each job, of which the medians are taken, after one that does not count")
	threads := f.Int("threads", runtime.GOMAXPROCS(0), "goroutines, and threads of PyTorch")
	most := f.Int("most", 1<<30, "at most so many training examples, examples to predict and inducing examples, to try it out")
	python := f.String("pytorch", "", "Python with PyTorch, which does the jobs in turn with us")
	file := f.String("json", "", "write the figures here")
	child := f.Bool("child", false, "do one job whenever a line is read: for the command itself")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *runs < 1 || *threads < 1 || *most < 20 {
		return errors.New("-runs and -threads are at least 1, and -most at least 20")
	}
	var list []job
	for _, j := range jobs {
		if *names == "" || slices.Contains(strings.Split(*names, ","), j.Name) {
			j.N, j.T, j.Inducing = min(j.N, *most), min(j.T, *most), min(j.Inducing, *most/2)
			list = append(list, j)
		}
	}
	switch {
	case len(list) == 0:
		return fmt.Errorf("-job %s: the jobs are %s", *names, jobNames())
	case *child:
		return list[0].answer(ctx, os.Stdin, out)
	}
	runtime.GOMAXPROCS(*threads)
	r := &results{Processor: fieldOf("/proc/cpuinfo", "model name"), Kernels: dense.InstructionSet(), Go: runtime.Version(), Threads: *threads, Runs: *runs}
	if err := r.measure(ctx, list, *most, *python); err != nil {
		return err
	}
	if *file != "" {
		if err := atomicfile.Write(*file, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "\t")
			return e.Encode(r)
		}); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, r.markdown())
	return err
}

func jobNames() string {
	var names []string
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	return strings.Join(names, ", ")
}

func (r *results) measure(ctx context.Context, list []job, most int, python string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r.probe(ctx)
	for _, j := range list {
		fmt.Fprintln(os.Stderr, j.Name)
		ours, err := r.start(ctx, self, "limits", "-child", "-job", j.Name, "-most", strconv.Itoa(most))
		if err != nil {
			return err
		}
		all := []*process{ours}
		if python != "" && j.Inducing == 0 {
			theirs, err := r.startTorch(ctx, python, j)
			if err != nil {
				return errors.Join(err, ours.stop())
			}
			all = append(all, theirs)
		}
		for range 1 + r.Runs {
			for _, p := range all {
				if err == nil {
					err = p.ask()
				}
			}
		}
		for _, p := range all {
			err = errors.Join(err, p.stop())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", j.Name, err)
		}
		r.probe(ctx)
		last := len(r.Gemm) - 1
		m := measured{Name: j.Name, Gemm: (r.Gemm[last-1] + r.Gemm[last]) / 2, Triad: (r.Triad[last-1] + r.Triad[last]) / 2}
		m.summarize(all)
		if len(all) > 1 {
			r.Torch = all[1].answers[0].Version
		}
		r.Jobs = append(r.Jobs, m)
	}
	return nil
}

// summarize takes the medians of the runs but the first.
func (m *measured) summarize(all []*process) {
	ours := all[0].answers[1:]
	m.Stages, m.Seconds, m.Bytes = slices.Clone(ours[0].Stages), map[string]float64{}, ours[len(ours)-1].Bytes
	for i := range m.Stages {
		m.Stages[i].Seconds = medianOf(len(ours), func(k int) float64 { return ours[k].Stages[i].Seconds })
		of := m.Stages[i].Part
		m.Seconds[of] = medianOf(len(ours), func(k int) float64 { return ours[k].seconds(of) })
	}
	if len(all) < 2 {
		return
	}
	theirs := all[1].answers[1:]
	m.Torch = &beside{Seconds: map[string]float64{}, Ratio: map[string]float64{}, Bytes: theirs[len(theirs)-1].Bytes,
		Check: math.Abs(ours[0].Check-theirs[0].Check) / ours[0].Check}
	for of := range m.Seconds {
		m.Torch.Seconds[of] = medianOf(len(ours), func(k int) float64 { return theirs[k].seconds(of) })
		m.Torch.Ratio[of] = medianOf(len(ours), func(k int) float64 { return theirs[k].seconds(of) / ours[k].seconds(of) })
	}
}

// seconds adds up the stages of a part.
func (a *answer) seconds(part string) (sum float64) {
	for _, s := range a.Stages {
		if s.Part == part {
			sum += s.Seconds
		}
	}
	return sum
}

func medianOf(n int, value func(k int) float64) float64 {
	v := make([]float64, n)
	for k := range v {
		v[k] = value(k)
	}
	slices.Sort(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// A process does a job once for each line that it is sent, and answers with a line of JSON.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	answers []answer
}

func (r *results) start(ctx context.Context, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Env, p.cmd.Stderr = os.Environ(), os.Stderr
	for _, v := range []string{"GOMAXPROCS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"} {
		p.cmd.Env = append(p.cmd.Env, v+"="+strconv.Itoa(r.Threads))
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	return p, p.cmd.Start()
}

// ask has the job done once. The pause lets threads of the other process end their waiting in loops.
func (p *process) ask() error {
	time.Sleep(300 * time.Millisecond)
	_, _ = io.WriteString(p.in, "\n") // where the process has ended, there is no answer either
	var a answer
	if err := p.out.Decode(&a); err != nil {
		return fmt.Errorf("no answer of %s: %w", p.cmd.Path, err)
	}
	p.answers = append(p.answers, a)
	return nil
}

func (p *process) stop() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}

// answer does the job for each line of in.
func (j job) answer(ctx context.Context, in io.Reader, out io.Writer) error {
	p, err := j.prepare(ctx)
	if err != nil {
		return err
	}
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		s, check, err := p.run(ctx)
		if err != nil {
			return err
		}
		if err := answers.Encode(answer{Version: runtime.Version(), Stages: s, Check: check, Bytes: peak()}); err != nil {
			return err
		}
	}
	return lines.Err()
}

// startTorch starts the script, and sends it the inputs, the targets and the parameters of the job.
func (r *results) startTorch(ctx context.Context, python string, j job) (*process, error) {
	p, err := j.prepare(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	torch, err := r.start(ctx, python, "-c", script, string(text), strconv.Itoa(r.Threads), strconv.Itoa(len(p.net.Theta())))
	if err != nil {
		return nil, err
	}
	for _, v := range [][]float64{p.net.Theta(), dense.Flat(p.y), dense.Flat(p.x), dense.Flat(p.xt)} {
		if err := binary.Write(torch.in, binary.LittleEndian, v); err != nil {
			return nil, errors.Join(fmt.Errorf("%s does not read: %w", python, err), torch.stop())
		}
	}
	return torch, nil
}
