"""The form for a token, as a browser sends it."""

from __future__ import annotations

from playwright.sync_api import Browser, expect


def test_a_person_enters_the_token_and_reaches_the_page_of_the_link(browser: Browser, protected: tuple[str, str]) -> None:
    address, token = protected
    wanted = f"{address}/runs/golden/matches?version=2"
    context = browser.new_context()
    page = context.new_page()
    page.goto(wanted)
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_have_text("This is not the token of this application.")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Open").click()
    expect(page).to_have_url(wanted)
    expect(page.locator("h1")).to_contain_text("Matches")

    page.goto(f"data:text/html,<a href='{wanted}'>a link in a mail</a>")
    page.get_by_role("link").click()
    expect(page).to_have_url(wanted)  # and not the form: the cookie comes with a link from another site
    context.close()
