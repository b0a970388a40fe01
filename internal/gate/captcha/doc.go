// Package captcha asks the services that show captchas whether one was solved:
// Cloudflare Turnstile and hCaptcha, which share a protocol, and GeeTest version 4.
//
// Every question is one HTTP request with a deadline and a bounded answer; it is not
// repeated, because a service takes the second for a second use. Redirects are not
// followed, as the request carries a secret. What the service says of the solution
// must be as configured: the host that showed the captcha, the action, the custom data
// that binds it to a user and a sale, and the time.
//
// One question without an answer decides nothing: the caller is told to come again,
// and so is whoever finds as many questions under way as there may be. Only a row of
// questions without an answer says that the service is out.
//
// The services keep a solution from being used twice. What cannot be bound by a service
// (GeeTest and hCaptcha return no custom data) can be carried from one account to
// another, once.
package captcha
