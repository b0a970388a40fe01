package testenv

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/doorbuster/doorbuster/internal/servers"
)

const (
	installChromium = "sudo apt-get install -y --no-install-recommends chromium fonts-dejavu-core"
	// pageIn bounds everything that a test does with one page.
	pageIn = 60 * time.Second
)

// Browser is a real Chromium without a window.
type Browser struct {
	tb     testing.TB
	chrome *chrome
}

// chrome is the program that all tests of this process share.
type chrome struct {
	ctx    context.Context //nolint:containedctx // chromedp keeps the browser in it
	cancel context.CancelFunc
	dir    string
	users  int
}

// browsing is a variable of the package because a browser takes a second to start:
// tests that need one at the same time share it, in tabs that share nothing.
//
//nolint:gochecknoglobals // see above
var browsing struct {
	sync.Mutex

	chrome *chrome
}

// Chromium returns the browser of this test process. It is started when a test asks
// for it and ends with the last test that has, or with the process. It asks nobody
// for anything by itself.
func Chromium(tb testing.TB) *Browser {
	tb.Helper()
	browsing.Lock()
	defer browsing.Unlock()
	if browsing.chrome == nil {
		c, err := startChrome()
		if err != nil {
			tb.Fatal(err)
		}
		browsing.chrome = c
	}
	c := browsing.chrome
	c.users++
	tb.Cleanup(func() {
		browsing.Lock()
		defer browsing.Unlock()
		if c.users--; c.users == 0 {
			browsing.chrome = nil
			c.stop()
		}
	})
	return &Browser{tb: tb, chrome: c}
}

func startChrome() (*chrome, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("chromium is missing; install it: %s", installChromium)
	}
	// It is nobody's test folder: it lives as long as the browser.
	dir, err := os.MkdirTemp("", "doorbuster-chromium-")
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.CombinedOutput(&output),
		chromedp.NoSandbox, // root, as in a container, may not have one; the pages are ours
		chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-dev-shm-usage", true), // small in containers
	)
	c := &chrome{dir: dir}
	all, cancelAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(all)
	c.ctx, c.cancel = ctx, func() { cancel(); cancelAll() }
	if err = chromedp.Do(c.ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("chromium does not start: %w\n%s", err, output.String())
	}
	return c, nil
}

func (c *chrome) stop() {
	ctx, cancel := context.WithTimeout(c.ctx, servers.ReadyIn)
	defer cancel()
	_ = chromedp.Cancel(ctx) // in order; what is left of it is killed
	c.cancel()
	_ = os.RemoveAll(c.dir)
}

// View is how somebody looks at a page. The zero value is a desk, by day.
type View struct {
	Width, Height int64 // of the window; 1280 by 800
	Phone         bool  // a small screen with fingers, as phones render
	Dark          bool  // the system asks for dark colours
	Paper         bool  // as it is printed
}

// Tab is a page that is open.
type Tab struct {
	tb  testing.TB
	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// Open opens a page in a tab of its own, without cookies or memory of others, and
// waits until it is loaded. The tab is closed when the test ends.
func (b *Browser) Open(address string, v View) *Tab {
	b.tb.Helper()
	ctx, cancel := chromedp.NewContext(b.chrome.ctx, chromedp.WithNewBrowserContext())
	limited, stop := context.WithTimeout(ctx, pageIn)
	b.tb.Cleanup(func() { stop(); cancel() })
	t := &Tab{tb: b.tb, ctx: limited}
	err := chromedp.Listen(ctx, t.hear)
	if err == nil {
		err = chromedp.Do(ctx, v.look()...)
	}
	if err == nil {
		err = chromedp.Do(limited, chromedp.Navigate(address))
	}
	if err != nil {
		b.tb.Fatalf("open %s: %v", address, err)
	}
	return t
}

func (v View) look() []chromedp.Action[chromedp.Void] {
	if v.Width == 0 {
		v.Width = 1280
	}
	if v.Height == 0 {
		v.Height = 800
	}
	media, scheme := "", "light"
	if v.Paper {
		media = "print"
	}
	if v.Dark {
		scheme = "dark"
	}
	var options []chromedp.EmulateViewportOption
	if v.Phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	return []chromedp.Action[chromedp.Void]{
		chromedp.EmulateViewport(v.Width, v.Height, options...),
		func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return chromedp.Void{}, err
		},
	}
}

// hear writes down what a test may ask for. It is called by one goroutine.
func (t *Tab) hear(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		t.complaints = append(t.complaints, "exception: "+e.ExceptionDetails.Text+" "+description(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			words := make([]string, len(e.Args))
			for i, arg := range e.Args {
				words[i] = description(arg)
			}
			t.complaints = append(t.complaints, "console: "+strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			t.complaints = append(t.complaints, "browser: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			t.requests = append(t.requests, e.Request.URL)
		}
	}
}

func description(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	if o.Description != "" {
		return o.Description
	}
	return string(o.Value)
}

// Complaints returns the errors and warnings of the page and of the browser about it,
// exceptions that nobody caught included.
func (t *Tab) Complaints() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.complaints...)
}

// Requests returns the addresses that the page has asked for, its own first. What a
// page carries in itself (data:) is no request.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.requests...)
}

// Do carries out actions of chromedp in the tab.
func (t *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	t.tb.Helper()
	if err := chromedp.Do(t.ctx, actions...); err != nil {
		t.tb.Fatalf("in the browser: %v", err)
	}
}

// Ask evaluates an expression of JavaScript in a tab and returns its value.
func Ask[T any](t *Tab, expression string) T {
	t.tb.Helper()
	value, err := chromedp.Run(t.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.tb.Fatalf("in the browser: %v\n%s", err, expression)
	}
	return value
}

//go:embed misfits.js
var misfits string

// Misfits tells in words what does not fit on the page: a page wider than its window,
// charts without a size, labels that stick out of their chart or lie on one another,
// text too wide for its place, letters that are hard to tell from what is behind
// them. It opens what is folded.
func (t *Tab) Misfits() []string {
	t.tb.Helper()
	return Ask[[]string](t, misfits)
}

// Picture returns the whole page as PNG.
func (t *Tab) Picture() []byte {
	t.tb.Helper()
	png, err := chromedp.Run(t.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.tb.Fatalf("picture of the page: %v", err)
	}
	return png
}
