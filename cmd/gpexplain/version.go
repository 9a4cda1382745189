package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionVerb(inv *invocation) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON to standard output")
	c.RunE = func(*cobra.Command, []string) error {
		inv.ran = true
		if err := inv.out.checkJSON(asJSON); err != nil {
			return err
		}
		v := map[string]string{"version": "(devel)", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			if info.Main.Version != "" {
				v["version"] = info.Main.Version
			}
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					v["revision"] = s.Value
				}
			}
		}
		if asJSON {
			return json.NewEncoder(inv.out).Encode(v)
		}
		_, err := fmt.Fprintf(inv.out, "gpexplain %s %s %s\n", v["version"], v["go"], v["platform"])
		return err
	}
	return c
}
