package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/linearize/network"
)

// operatorList is what inspect --operators prints with --json.
type operatorList struct {
	Schema    string         `json:"schema"`
	Opsets    [2]int         `json:"opsets"`
	Operators []operatorInfo `json:"operators"`
}

type operatorInfo struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Note  string `json:"note"`
}

// listOperators prints the operators that are read.
func listOperators(c *console.Console) error {
	out := operatorList{Schema: "funcgp/operators/1", Opsets: [2]int{network.MinOpset, network.MaxOpset}}
	for _, o := range network.Operators() {
		out.Operators = append(out.Operators, operatorInfo{o.Name, o.Group, o.Note})
	}
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(out)
	}
	width := 0
	for _, o := range out.Operators {
		width = max(width, len(o.Name))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "opsets %d to %d\n", network.MinOpset, network.MaxOpset)
	group := ""
	for _, o := range out.Operators {
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(&text, "\n%s\n", group)
		}
		text.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s  %s", width, o.Name, o.Note), " ") + "\n")
	}
	_, err := io.WriteString(c.Out, text.String())
	return err
}
