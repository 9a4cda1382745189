package zoo

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// writeTable writes the results as tables in Markdown.
func writeTable(path string, all []*result) error {
	if path == "" {
		return nil
	}
	var b strings.Builder
	b.WriteString("| network | opset | N | D | C | P | blocks | gradient | f, float32 | f, float64 | validate |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range all {
		agrees := fmt.Sprintf("%.0e", r.Worst)
		if !r.Agrees {
			agrees += " differs"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %s | %.1g | %.0e | %.0e | %s |\n",
			r.Name, r.Opset, r.Examples, r.Inputs, r.Outputs, r.Parameters, blocks(r.Blocks), r.GradientNorm, r.F32, r.F64, agrees)
	}
	b.WriteString("\n| network |")
	if len(all) > 0 {
		for _, s := range all[0].Steps {
			fmt.Fprintf(&b, " %s |", s.Verb)
		}
		b.WriteString(" load |\n|---|" + strings.Repeat("---|", len(all[0].Steps)+1) + "\n")
	}
	for _, r := range all {
		fmt.Fprintf(&b, "| %s |", r.Name)
		for _, s := range r.Steps {
			fmt.Fprintf(&b, " %.1f s, %.1f s, %d MB |", s.Seconds, s.CPUSeconds, s.Bytes>>20)
		}
		fmt.Fprintf(&b, " %.1f |\n", r.Load)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// blocks lists the kinds of Block with the parameters in them, the most first.
func blocks(count map[string]int) string {
	kinds := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	var list []string
	for _, k := range kinds {
		list = append(list, fmt.Sprintf("%s %d", k, count[k]))
	}
	return strings.Join(list, ", ")
}
