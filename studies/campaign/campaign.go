// Package campaign tries for hours to break funcgp: parts feed it what is damaged, hostile or cut
// short, and note every crash, hang, silent wrong number, growth of memory and half-written file.
//
//	go run ./gpstudies campaign -cache DIR            # ten minutes for each part that has not had its hour
//	go run ./gpstudies campaign -cache DIR -parts flips -minutes 60 -seed 7
//
// Times, trials and findings of all runs add up in campaign.json, from which campaign.md is written.
// A part goes on where the last run of it ended if it keeps something in its own folder, such as the
// corpus of a fuzzer, and otherwise tries other values: each run has a seed of its own, which is
// printed and recorded and repeats the run.
package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/studies/command"
	"github.com/funcgp/funcgp/studies/table"
)

// A Part is one way to try to break funcgp.
type Part struct {
	Name, Short string
	// Prepare, which may be nil, makes what Run needs. Its time does not count.
	Prepare func(ctx context.Context, env *Env) error
	// Run tries until ctx ends, which is no error, or until there is nothing left to try, and adds to
	// r what it did. An error says that the part could not try; what funcgp does wrong is a finding.
	Run func(ctx context.Context, env *Env, r *Result) error
}

// parts are all of them, in the order in which they are listed and run.
var parts = []Part{
	fuzzing("graphs", "fuzzing of ONNX files, graphs and their integers, and of weights beside a file", target.graph),
	fuzzing("parsers", "fuzzing of everything else that is read: data, posteriors, parts, flags, requests", func(t target) bool { return !t.graph() }),
	serve,
	flips,
	kills,
	hostileNames(),
	changes,
	others,
}

// An Env is what a part works with.
type Env struct {
	Root    string    // folder of the sources of module github.com/funcgp/funcgp
	Program string    // gpexplain, built from them
	Dir     string    // folder of this part, kept between runs
	Temp    string    // folder of this run, removed after it
	Seed    uint64    // of this run
	Log     io.Writer // progress, in lines
}

// Rand returns the random numbers of the run's seed; stream tells several apart.
func (e *Env) Rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(e.Seed, stream)) }

// Gpexplain runs the program in the run's folder and returns what it writes and its exit status,
// which is -1 where a signal or the end of ctx ended it.
func (e *Env) Gpexplain(ctx context.Context, args ...string) (stdout, stderr string, exit int) {
	p := exec.CommandContext(ctx, e.Program, args...)
	var out, said strings.Builder
	p.Dir, p.Stdout, p.Stderr = e.Temp, &out, &said
	if err := p.Run(); err != nil && p.ProcessState == nil {
		return "", err.Error(), -1
	}
	return out.String(), said.String(), p.ProcessState.ExitCode()
}

// A Result is what a run of a part did.
type Result struct {
	Trials   map[string]int64 // number of trials of each kind
	Findings []string         // what funcgp did wrong, each in one line that says how to see it again
	Done     bool             // nothing is left to try
	mu       sync.Mutex
}

// Count adds n trials of a kind. It may be called from many goroutines.
func (r *Result) Count(kind string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Trials == nil {
		r.Trials = map[string]int64{}
	}
	r.Trials[kind] += n
}

// Find adds a finding. It may be called from many goroutines.
func (r *Result) Find(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Findings = append(r.Findings, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// A record is what all runs of a part did.
type record struct {
	Name     string           `json:"name"`
	Seconds  float64          `json:"seconds"`
	Runs     int              `json:"runs"`
	Seeds    []uint64         `json:"seeds"` // of the runs, in order
	Done     bool             `json:"done,omitempty"`
	Trials   map[string]int64 `json:"trials"`
	Findings []finding        `json:"findings,omitempty"`
}

// A finding is what funcgp did wrong.
type finding struct {
	Seed   uint64 `json:"seed"`
	Text   string `json:"text"`
	Mended string `json:"mended,omitempty"` // the test that shows it, written by hand once it is mended
}

// add adds the result of a run.
func (c *record) add(r *Result, seed uint64, took time.Duration) {
	c.Seconds += took.Seconds()
	c.Runs++
	c.Seeds = append(c.Seeds, seed)
	c.Done = r.Done
	if c.Trials == nil {
		c.Trials = map[string]int64{}
	}
	for kind, n := range r.Trials {
		c.Trials[kind] += n
	}
	for _, text := range r.Findings {
		if !slices.ContainsFunc(c.Findings, func(f finding) bool { return f.Text == text && f.Mended == "" }) {
			c.Findings = append(c.Findings, finding{Seed: seed, Text: text})
		}
	}
}

// Run gives each part that has not had its time the minutes of this run, and writes campaign.json
// and campaign.md after each. It ends with an error where a part found something.
func Run(ctx context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("campaign", flag.ContinueOnError)
	f.SetOutput(out)
	cache := f.String("cache", "", "folder that keeps corpora and files between runs; default campaign in the user's cache")
	dir := f.String("out", "records", "folder of campaign.json and campaign.md, to which the figures are added")
	only := f.String("parts", "", "names of parts, with commas between them, which run even if they had their time; default all that have not; list prints them")
	minutes := f.Float64("minutes", 10, "time of each part in this run")
	whole := f.Float64("whole", 60, "minutes that each part gets in all runs together")
	seed := f.Uint64("seed", 0, "of the random numbers; 0 draws one")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *only == "list" {
		for _, p := range parts {
			fmt.Fprintf(out, "%-16s %s\n", p.Name, p.Short)
		}
		return nil
	}
	chosen := parts
	if *only != "" {
		chosen = nil
		for name := range strings.SplitSeq(*only, ",") {
			i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == name })
			if i < 0 {
				return fmt.Errorf("there is no part %q; -parts list lists them", name)
			}
			chosen = append(chosen, parts[i])
		}
	}
	if *cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		*cache = filepath.Join(user, "gpstudies", "campaign")
	}
	kept, err := filepath.Abs(*cache)
	if err != nil {
		return err
	}
	root, err := command.Root(ctx)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "campaign-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if _, err := command.Build(ctx, temp); err != nil {
		return err
	}
	found := 0
	for _, p := range chosen {
		records, err := read(*dir)
		if err != nil {
			return err
		}
		left := time.Duration(*minutes * float64(time.Minute))
		if *only == "" {
			if c := records[p.Name]; c != nil {
				if c.Done {
					continue
				}
				left = min(left, time.Duration(*whole*float64(time.Minute)-c.Seconds*float64(time.Second)))
			}
		}
		if left <= 0 {
			continue
		}
		env := &Env{Root: root, Program: filepath.Join(temp, "gpexplain"), Dir: filepath.Join(kept, p.Name), Temp: filepath.Join(temp, p.Name), Seed: *seed, Log: out}
		if env.Seed == 0 {
			env.Seed = uint64(rand.Uint32()) + 1 // short, to be typed again
		}
		fmt.Fprintf(out, "%s: %.0f minutes, seed %d\n", p.Name, left.Minutes(), env.Seed)
		r, took, err := try(ctx, p, env, left)
		if err != nil {
			return fmt.Errorf("%s, seed %d: %w", p.Name, env.Seed, err)
		}
		for _, text := range r.Findings {
			fmt.Fprintf(out, "%s: found: %s\n", p.Name, text)
		}
		found += len(r.Findings)
		if err := update(*dir, p.Name, func(c *record) { c.add(r, env.Seed, took) }); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if found > 0 {
		return fmt.Errorf("%d findings, which campaign.md lists", found)
	}
	return nil
}

// try runs a part for at most limit. What it did before ctx ended counts.
func try(ctx context.Context, p Part, env *Env, limit time.Duration) (*Result, time.Duration, error) {
	for _, dir := range []string{env.Dir, env.Temp} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, 0, err
		}
	}
	if p.Prepare != nil {
		if err := p.Prepare(ctx, env); err != nil {
			return nil, 0, err
		}
	}
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	start := time.Now()
	r := new(Result)
	err := p.Run(within, env, r)
	if err != nil && within.Err() != nil && errors.Is(err, within.Err()) {
		err = nil
	}
	return r, time.Since(start), errors.Join(err, os.RemoveAll(env.Temp))
}

// read returns the records of dir by the name of their part.
func read(dir string) (map[string]*record, error) {
	path := filepath.Join(dir, "campaign.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]*record{}, nil
	}
	if err != nil {
		return nil, err
	}
	var list []*record
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	records := map[string]*record{}
	for _, c := range list {
		records[c.Name] = c
	}
	return records, nil
}

// update changes the record of a part and writes campaign.json and campaign.md. It reads the file
// again, so that runs of other parts that go on at the same time are kept.
func update(dir, name string, change func(*record)) error {
	records, err := read(dir)
	if err != nil {
		return err
	}
	if records[name] == nil {
		records[name] = &record{Name: name}
	}
	change(records[name])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var list []*record
	for _, key := range slices.Sorted(maps.Keys(records)) {
		list = append(list, records[key])
	}
	text, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return err
	}
	for file, text := range map[string]string{"campaign.json": string(text) + "\n", "campaign.md": page(list)} {
		err := atomicfile.Write(filepath.Join(dir, file), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// page is campaign.md.
func page(records []*record) string {
	var b strings.Builder
	b.WriteString("# Attempts to break funcgp\n\n\tgo run ./gpstudies campaign -cache DIR\n\n" +
		"Minutes and trials of all runs together; *open* counts findings that are not mended yet. The seed is that of the last run.\n\n")
	t := table.Table{Header: []string{"part", "what it tries", "minutes", "runs", "seed", "trials", "open", "mended"}}
	kinds := table.Table{Header: []string{"part", "kind", "trials"}}
	findings := table.Table{Header: []string{"part", "seed", "finding", "mended"}}
	for _, c := range records {
		short, open, all := "", 0, int64(0)
		if i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == c.Name }); i >= 0 {
			short = parts[i].Short
		}
		for _, kind := range slices.Sorted(maps.Keys(c.Trials)) {
			all += c.Trials[kind]
			kinds.Add(c.Name, kind, c.Trials[kind])
		}
		for _, f := range c.Findings {
			if f.Mended == "" {
				open++
			}
			findings.Add(c.Name, f.Seed, strings.ReplaceAll(f.Text, "|", "¦"), f.Mended)
		}
		t.Add(c.Name, short, fmt.Sprintf("%.1f", c.Seconds/60), c.Runs, c.Seeds[len(c.Seeds)-1], all, open, len(c.Findings)-open)
	}
	b.WriteString(t.Markdown() + "\n## Trials by kind\n\n" + kinds.Markdown())
	if len(findings.Rows) > 0 {
		b.WriteString("\n## Findings\n\n" + findings.Markdown())
	}
	return b.String()
}
