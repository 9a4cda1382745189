package limits

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/studies/table"
)

// least is the time that a stage takes at least, and whether arithmetic or memory sets it.
func (m *measured) least(s stage) (seconds float64, by string) {
	flops, bytes := s.Flops/m.Gemm, s.Bytes/m.Triad
	if flops >= bytes {
		return flops, "arithmetic"
	}
	return bytes, "memory"
}

// markdown is the machine, a table of jobs and a table of stages.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d threads, kernels %s, %s", cmp.Or(r.Processor, "Processor unknown"), r.Threads, r.Kernels, r.Go)
	if r.Torch != "" {
		fmt.Fprintf(&b, ", PyTorch %s", r.Torch)
	}
	fmt.Fprintf(&b, ". dgemm of order 2000 reaches %.1f to %.1f GF/s, a triad %.1f to %.1f GB/s (%d times each, between the jobs). Medians of %d runs.\n\n",
		slices.Min(r.Gemm)/1e9, slices.Max(r.Gemm)/1e9, slices.Min(r.Triad)/1e9, slices.Max(r.Triad)/1e9, len(r.Gemm), r.Runs)
	whole := table.Table{Header: []string{"job", "seconds", "at least", "share of the limit", "peak MiB", "PyTorch, seconds", "ratio", "peak MiB"}}
	stages := table.Table{Header: []string{"job", "stage", "Gflop", "MB", "seconds", "GF/s", "bound", "share"}}
	for i := range r.Jobs {
		m := &r.Jobs[i]
		var parts []string
		sum := map[string]float64{}
		for _, s := range m.Stages {
			least, by := m.least(s)
			if !slices.Contains(parts, s.Part) {
				parts = append(parts, s.Part)
			}
			sum[s.Part] += least
			stages.Add(m.Name+" "+s.Part, s.Name, s.Flops/1e9, s.Bytes/1e6, s.Seconds, s.Flops/s.Seconds/1e9, by, least/s.Seconds)
		}
		for _, p := range parts {
			torch, ratio, bytes := math.NaN(), math.NaN(), ""
			if m.Torch != nil {
				torch, ratio, bytes = m.Torch.Seconds[p], m.Torch.Ratio[p], fmt.Sprint(m.Torch.Bytes>>20)
			}
			whole.Add(m.Name+" "+p, m.Seconds[p], sum[p], sum[p]/m.Seconds[p], m.Bytes>>20, torch, ratio, bytes)
		}
		if m.Torch != nil && !(m.Torch.Check < 1e-6) {
			fmt.Fprintf(&b, "The variances of %s by PyTorch differ by %.2g.\n\n", m.Name, m.Torch.Check)
		}
	}
	return b.String() + whole.Markdown() + "\n" + stages.Markdown()
}
