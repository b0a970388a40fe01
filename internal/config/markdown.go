package config

import (
	"fmt"
	"io"
	"strings"
)

const markdownHead = `# Configuration

<!-- Written by ` + "`doorbuster config doc`" + `; run ` + "`make generate`" + ` after a change. -->

Without any configuration ` + "`doorbuster serve`" + ` serves an embedded ledger under ` + "`./data`" + ` on loopback addresses.

Every key can be said in four places; a later one wins:

1. the default in the tables below;
2. a YAML file, named by ` + "`--config FILE`" + ` or ` + "`DOORBUSTER_CONFIG`" + `;
3. an environment variable: ` + "`DOORBUSTER_`" + ` and the key in capitals with ` + "`_`" + ` for each dot, so ` + "`api.listen`" + ` is ` + "`DOORBUSTER_API_LISTEN`" + `; one that is empty says nothing;
4. a flag: ` + "`--set api.listen=127.0.0.1:8080`" + `, or the key's own flag where the table names one.

Durations are written as in ` + "`500ms`, `10s`, `2m`" + `. A list is written as a list in the file, and with commas elsewhere.
An unknown key or ` + "`DOORBUSTER_`" + ` variable is refused, so that a typing error cannot go unnoticed.
` + "`doorbuster config check`" + ` tells every mistake at once; ` + "`doorbuster config print`" + ` shows what is in force and where it was said.
Secrets are never values: keys name files.
`

// WriteMarkdown writes the page that describes every key.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString(markdownHead)
	open := false
	for _, f := range Fields() {
		if f.Section {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", f.Key, escape(f.Doc))
			open = false
			continue
		}
		if !open {
			b.WriteString("\n| key | kind | default | meaning |\n|---|---|---|---|\n")
			open = true
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Key, f.Kind(), cell(f.Default), meaning(&f))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(def string) string {
	if def == "" {
		return ""
	}
	return "`" + def + "`"
}

func meaning(f *Field) string {
	text := escape(f.Doc)
	if f.Flag != "" {
		text += " Flag: `--" + f.Flag + "`."
	}
	return text
}

// escape keeps text from being taken for a tag or the end of a cell.
func escape(text string) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;", "|", "\\|").Replace(text)
}
